# cosign as Debian has it, unpacked and not installed: it needs nothing but libc.
apt="apt-get -q -o Dir::State::Lists=/work/lists -o Dir::Cache=/work/cache -o Acquire::Retries=3"
mkdir -p /work/lists/partial /work/cache/archives/partial /out/bin
cd /work
rm -rf root cosign_*.deb

$apt update
$apt download cosign
dpkg-deb -f cosign_*.deb Version | grep '^2\.'
dpkg-deb -x cosign_*.deb root
install root/usr/bin/cosign /out/bin/cosign
