"""How well GPUs reach each other, and which of them to prefer."""
