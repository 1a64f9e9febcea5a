"""DomainBed's scripts by their own names and flags, done by our commands."""
