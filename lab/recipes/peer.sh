# scx_loader and its client (CRATES holds NAME@VERSION words), and polkit, which it asks before it starts a scheduler: as a root
# folder that is copied over a machine's. In: /peer (its unit and its policies)    Out: /out/root

export CARGO_HOME=/downloads/cargo CARGO_TARGET_DIR=/build/target
export CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 CARGO_PROFILE_RELEASE_STRIP=symbols

root=/out/root
for wanted in $CRATES; do
  cargo install --locked --no-track --force --root "$root/usr" "$wanted"
done
install -D -m 644 -t "$root/usr/lib/systemd/system" /peer/scx_loader.service
install -D -m 644 -t "$root/usr/share/dbus-1/system-services" /peer/org.scx.Loader.service
install -D -m 644 -t "$root/usr/share/dbus-1/system.d" /peer/org.scx.Loader.conf

# Unpacked only: glib and D-Bus, which they need, are on the machine's disk, and nobody logs in there.
cd /build
rm -f ./*.deb
apt-get -q -o Acquire::Retries=3 download polkitd libpolkit-agent-1-0 libpolkit-gobject-1-0 libduktape207
for package in ./*.deb; do dpkg-deb -x "$package" "$root"; done
rm -rf "$root"/usr/share/{doc,locale,man}
install -D -m 644 -t "$root/usr/share/polkit-1/actions" /peer/org.scx.Loader.policy
