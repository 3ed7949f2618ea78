"""The kubelet's gRPC APIs: our own .proto files and the code generated from them.

The files are registered in protobuf's pool as `deviceplugin/v1beta1/api.proto` and
`podresources/v1/api.proto`. Regenerate with `python -m gpuready.protos.generate`.
"""
