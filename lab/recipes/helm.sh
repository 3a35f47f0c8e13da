# helm from its Go module. Environment: VERSION (v4.x.y).
mkdir -p /build/source /out/bin
cd /build/source
rm -f go.mod go.sum

module=helm.sh/helm/v4
folder=$(go mod download -json "$module@$VERSION" | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p')
{
    echo "module helm"
    grep '^go ' "$folder/go.mod"
    echo "require $module $VERSION"
} > go.mod
go build -v -trimpath -ldflags "-s -w -X $module/internal/version.version=$VERSION" -o /out/bin/helm "$module/cmd/helm"
/out/bin/helm version --template '{{.Version}}' | grep -xF "$VERSION"
