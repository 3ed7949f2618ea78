"""The kubelet's sockets: serving device plugins, reading pod-resources. All gRPC of the product is here."""
