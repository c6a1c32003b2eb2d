"""What opaq is compared with: each module computes a quantity that opaq computes too, without opaq."""
