"""Owner references, deletion finalizers, and namespaces that are being deleted."""
