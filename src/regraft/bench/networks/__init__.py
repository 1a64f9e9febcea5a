"""The networks that the protocol trains."""
