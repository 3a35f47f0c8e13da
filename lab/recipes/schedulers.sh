# Compiles real schedulers (SCHEDULERS holds NAME@VERSION words) and gathers the shared libraries such programs need.
# Crates stay in /downloads and what is compiled in /build, so an interrupted build goes on where it was.

export CARGO_HOME=/downloads/cargo CARGO_TARGET_DIR=/build/target
# What the lab tries is how they attach and behave, not how fast their user space is: unoptimised, they compile in half the time.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256
export BPF_CLANG=clang-19 LIBCLANG_PATH=/usr/lib/llvm-19/lib

for wanted in $SCHEDULERS; do
  cargo install --locked --no-track --force --root /build/installed "$wanted"
done
install -D -s -t /out/bin /build/installed/bin/*

runtime=/out/runtime
install -d "$runtime"/{dev,etc,proc,run,sys,usr/bin,usr/lib,usr/lib64,var}
install -d -m 1777 "$runtime/tmp"
ln -s usr/bin usr/lib usr/lib64 "$runtime"
ln -s ../run "$runtime/var/run"
cp /etc/os-release "$runtime/etc"
# Only what lies directly in a library folder: plugins such as gconv's would double the size.
dpkg -L libc6 libgcc-s1 libelf1t64 zlib1g libzstd1 libseccomp2 |
  grep -oP '^/\Kusr/lib(64|/[^/]+)/[^/]+\.so(\..*)?$' | sort -u |
  tar -c -C / --no-recursion --files-from=- | tar -x -C "$runtime"

for binary in /out/bin/*; do # fails here, not in a VM, when a library is missing
  cp "$binary" "$runtime/tmp/binary"
  chroot "$runtime" /lib64/ld-linux-x86-64.so.2 --list /tmp/binary
  rm "$runtime/tmp/binary"
done
