"""The paper whose robot this is, made again."""
