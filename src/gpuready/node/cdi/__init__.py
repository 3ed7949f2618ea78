"""The node's CDI specs in /var/run/cdi: written, watched, marked stale, removed."""
