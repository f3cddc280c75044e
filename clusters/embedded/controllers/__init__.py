"""The small controllers: what owns pods, and what goes when its owner goes. They know the API server as any client does."""
