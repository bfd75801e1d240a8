"""operators/aggregates"""
