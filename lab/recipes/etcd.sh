# etcd from its Go module. Environment: VERSION.
mkdir -p /build/source /out/bin
cd /build/source
rm -f go.mod go.sum

module=go.etcd.io/etcd/server/v3
folder=$(go mod download -json "$module@$VERSION" | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p')
{
    echo "module etcd"
    grep '^go ' "$folder/go.mod"
    echo "require $module $VERSION"
} > go.mod
go build -v -trimpath -ldflags "-s -w" -o /out/bin/etcd "$module"
/out/bin/etcd --version | grep -xF "etcd Version: ${VERSION#v}"
