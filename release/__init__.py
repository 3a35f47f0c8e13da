"""What a release is made of, and the proof that it installs: `make package`, `make release-check`."""
