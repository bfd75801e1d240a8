"""Answers, and information about a store: its definitions, its entries, its state."""
