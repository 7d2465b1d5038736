"""One cached object: its bytes, decoded only when somebody looks inside."""
