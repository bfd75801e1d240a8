"""operators/columnar"""
