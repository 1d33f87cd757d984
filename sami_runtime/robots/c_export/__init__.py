"""Writes a model file as C++17: policy, session and safety gate without ONNX Runtime and without heap allocation."""
