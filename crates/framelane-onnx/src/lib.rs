//! framelane-onnx
