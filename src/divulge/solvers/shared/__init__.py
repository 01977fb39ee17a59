"""What several problems need: fits of affine functions, rounding, similarity of images, calibration, architectures."""
