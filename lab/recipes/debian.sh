# Programs as Debian has them, unpacked and not installed: they need nothing but libc.
# Environment: PACKAGES; SUITE they are of; SERIES, how their versions begin; PROGRAMS out of their /usr/bin.
mkdir -p /build/lists/partial /build/cache/archives/partial /out/bin
cd /build
rm -rf root ./*.deb
awk -v suite="$SUITE" 'NR == 1 {print $1, $2, suite, $4}' /etc/apt/sources.list >sources.list
apt="apt-get -q -o Dir::State::Lists=/build/lists -o Dir::Cache=/build/cache -o Acquire::Retries=3"
apt+=" -o Dir::Etc::SourceList=/build/sources.list -o Dir::Etc::SourceParts=/dev/null"
# A mirror may be days behind, for which a suite that is not released gives no time. Signatures are checked all the same.
apt+=" -o Acquire::Check-Valid-Until=false"

$apt update
$apt download $PACKAGES
for package in $PACKAGES; do
    version=$(dpkg-deb -f "$package"_*.deb Version)
    [[ $version == "$SERIES"* ]] || { echo "Debian $SUITE has $package $version, and not $SERIES…" >&2; exit 1; }
    dpkg-deb -x "$package"_*.deb root
done
for program in $PROGRAMS; do install "root/usr/bin/$program" "/out/bin/$program"; done
