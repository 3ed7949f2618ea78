"""The Deployment and ReplicaSet controllers."""
