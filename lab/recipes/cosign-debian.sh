# cosign as Debian has it, unpacked and not installed: it needs nothing but libc.
apt="apt-get -q -o Dir::State::Lists=/build/lists -o Dir::Cache=/build/cache -o Acquire::Retries=3"
mkdir -p /build/lists/partial /build/cache/archives/partial /out/bin
cd /build
rm -rf root cosign_*.deb

$apt update
$apt download cosign
dpkg-deb -f cosign_*.deb Version | grep '^2\.'
dpkg-deb -x cosign_*.deb root
install root/usr/bin/cosign /out/bin/cosign
