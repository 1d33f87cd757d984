"""The ONNX operators that a policy may be made of.

An allow-list, because a hostile file reaches every kernel that onnxruntime has. It holds deterministic
arithmetic: no control flow, no files, no randomness, no strings, no quantisation.
"""

from __future__ import annotations

_LINEAR = {"Einsum", "Gemm", "MatMul"}
_RECURRENT = {"GRU", "LSTM", "RNN"}
_ARITHMETIC = {"Abs", "Add", "Ceil", "Clip", "Div", "Floor", "Max", "Mean", "Min", "Mod", "Mul", "Neg", "Pow"}
_ARITHMETIC |= {"Reciprocal", "Round", "Sign", "Sqrt", "Sub", "Sum"}
_FUNCTIONS = {"Cos", "Erf", "Exp", "Log", "Sin", "Tan", "Atan"}
_ACTIVATIONS = {"Celu", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "LogSoftmax", "Mish", "PRelu"}
_ACTIVATIONS |= {"Relu", "Selu", "Sigmoid", "Softmax", "Softplus", "Softsign", "Tanh", "ThresholdedRelu"}
_NORMALISATION = {"LayerNormalization", "RMSNormalization"}
_REDUCTIONS = {"ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"}
_REDUCTIONS |= {"ReduceSumSquare"}
_SHAPES = {"Cast", "CastLike", "Concat", "Constant", "ConstantOfShape", "Expand", "Flatten", "Gather"}
_SHAPES |= {"GatherElements", "Identity", "Range", "Reshape", "Shape", "Size", "Slice", "Split", "Squeeze"}
_SHAPES |= {"Tile", "Transpose", "Unsqueeze"}
_LOGIC = {"And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Where", "Xor"}

OPERATORS = frozenset(
    _LINEAR | _RECURRENT | _ARITHMETIC | _FUNCTIONS | _ACTIVATIONS | _NORMALISATION | _REDUCTIONS | _SHAPES | _LOGIC
)
"""Operators of the default domain that a model file may use."""

DOMAINS = frozenset({"", "ai.onnx"})
"""The default domain, by its two names."""
