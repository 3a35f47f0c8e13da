# KWOK's controller from its Go module, and the stages that it plays nodes and pods by. Environment: VERSION, STAGES.
mkdir -p /build/source /out/bin /out/stages
cd /build/source
rm -f go.mod go.sum

module=sigs.k8s.io/kwok
folder=$(go mod download -json "$module@$VERSION" | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p')
{
    echo "module kwok"
    grep '^go ' "$folder/go.mod"
    echo "require $module $VERSION"
} > go.mod
go build -v -trimpath -ldflags "-s -w -X $module/pkg/consts.Version=$VERSION" -o /out/bin/kwok "$module/cmd/kwok"
for stage in $STAGES; do
    find "$folder/kustomize/stage/$stage" -maxdepth 1 -name '*.yaml' ! -name 'kustomization*.yaml' | while read -r file; do
        install -m 644 "$file" "/out/stages/${stage//\//-}-$(basename "$file")"
    done
done
/out/bin/kwok --version | grep -F "$VERSION"
