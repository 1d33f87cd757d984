"""What commands drive: environments, adapters, and the model files that belong to them."""
