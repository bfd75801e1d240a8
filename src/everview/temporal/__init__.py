"""How results change and when they are final: update patterns, stream bounds, the blocking check."""
