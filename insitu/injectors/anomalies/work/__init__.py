"""What workers do, one module per resource. Only the load server imports these."""
