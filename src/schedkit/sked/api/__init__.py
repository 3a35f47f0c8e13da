"""The SchedExt resource: its types, its rules, the CRD made of them, and the algebra of its node selectors."""
