"""ONNX, TorchScript and quantization."""
