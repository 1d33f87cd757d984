"""Steps skill-aware policies inside a control loop, from one ONNX file and without torch."""
