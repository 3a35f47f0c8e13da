# Compiles one scheduler (SCHEDULER is NAME@VERSION) from its published crate, as the lab's own are: see schedulers.sh.
# One that does not build leaves failed, with the end of what cargo said. What several have in common is compiled once: it
# is in /downloads, and an interrupted build goes on where it was.

export CARGO_HOME=/downloads/cargo CARGO_TARGET_DIR=/downloads/cargo-target
export CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 CARGO_PROFILE_RELEASE_STRIP=symbols
export BPF_CLANG=clang-19 LIBCLANG_PATH=/usr/lib/llvm-19/lib

install -d /build/built/opt/bin
cargo install --locked --no-track --force --root /build/built/opt "$SCHEDULER" 2>&1 | tee /build/log ||
  tail -n 100 /build/log >/out/failed
