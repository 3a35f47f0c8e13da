# cosign from its Go module. Environment: VERSION (v2.x.y or v3.x.y).
mkdir -p /build/source /out/bin
cd /build/source
rm -f go.mod go.sum

module=github.com/sigstore/cosign/${VERSION%%.*}
folder=$(go mod download -json "$module@$VERSION" | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p')
{
    echo "module cosign"
    grep '^go ' "$folder/go.mod"
    echo "require $module $VERSION"
} > go.mod
go build -v -trimpath -ldflags "-s -w -X sigs.k8s.io/release-utils/version.gitVersion=$VERSION" \
    -o /out/bin/cosign "$module/cmd/cosign"
/out/bin/cosign version 2>/dev/null | grep -F "$VERSION"
