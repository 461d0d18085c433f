"""Trains the encoder of layer 2: from labelled lines to an ONNX file and its vocabulary."""
