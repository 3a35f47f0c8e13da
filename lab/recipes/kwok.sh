# KWOK's controller from its Go module, and the stages that it plays nodes and pods by. Environment: VERSION, MODULES, STAGES.
. /recipes/go-module.sh
module=sigs.k8s.io/kwok
go build -v -trimpath -ldflags "-s -w -X $module/pkg/consts.Version=$VERSION" -o /out/bin/kwok "$module/cmd/kwok"
folder=$(source_of "$module@$VERSION")
mkdir -p /out/stages
for stage in $STAGES; do
    find "$folder/kustomize/stage/$stage" -maxdepth 1 -name '*.yaml' ! -name 'kustomization*.yaml' | while read -r file; do
        install -m 644 "$file" "/out/stages/${stage//\//-}-$(basename "$file")"
    done
done
/out/bin/kwok --version | grep -F "$VERSION"
