"""DomainBed's protocol: jobs, runs, records, selection, tables."""
