"""Trained policies that come along, `NAME.onnx` with its card `NAME.md`; installed as `sami_models`."""
