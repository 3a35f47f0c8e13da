# Programs as Debian has them, unpacked and not installed: they need nothing but libc.
# Environment: PACKAGES, each with the program of its name; SERIES, how their versions begin.
apt="apt-get -q -o Dir::State::Lists=/build/lists -o Dir::Cache=/build/cache -o Acquire::Retries=3"
mkdir -p /build/lists/partial /build/cache/archives/partial /out/bin
cd /build
rm -rf root ./*.deb

$apt update
$apt download $PACKAGES
for package in $PACKAGES; do
    version=$(dpkg-deb -f "$package"_*.deb Version)
    [[ $version == "$SERIES"* ]] || { echo "Debian has $package $version, and not $SERIES…" >&2; exit 1; }
    dpkg-deb -x "$package"_*.deb root
    install "root/usr/bin/$package" "/out/bin/$package"
done
