"""Export: a trained agent becomes one ONNX file that describes itself, with its weights and its model card."""
