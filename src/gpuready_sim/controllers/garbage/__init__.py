"""Owner references and the deletion finalizers; namespaces are emptied by the API server itself."""
