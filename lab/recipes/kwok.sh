# KWOK's controller from its Go module, and the stages that it plays nodes and pods by. Environment: VERSION, MODULES, STAGES.
. /recipes/go-module.sh
module=sigs.k8s.io/kwok
folder=$(source_of "$module@$VERSION")

# KWOK 0.8.0 begins each watch at the beginning. One that ends while thousands of pods change is read as slowly as all
# of them take, so the API server ends it for its slowness, and so on for minutes. Let it go on where it was.
rm -rf /build/kwok
cp -r --no-preserve=mode "$folder" /build/kwok
options=/build/kwok/pkg/utils/informer/event.go
sed -i 's/if !o\.EnableListPager || o\.EnableStreamWatch {/if opts.ResourceVersion == "" \&\& (!o.EnableListPager || o.EnableStreamWatch) {/' $options
grep -qF 'if opts.ResourceVersion == "" && (!o.EnableListPager' $options
go mod edit -replace "$module=/build/kwok"
go build -v -trimpath -ldflags "-s -w -X $module/pkg/consts.Version=$VERSION" -o /out/bin/kwok "$module/cmd/kwok"
mkdir -p /out/stages
for stage in $STAGES; do
    find "$folder/kustomize/stage/$stage" -maxdepth 1 -name '*.yaml' ! -name 'kustomization*.yaml' | while read -r file; do
        install -m 644 "$file" "/out/stages/${stage//\//-}-$(basename "$file")"
    done
done
/out/bin/kwok --version | grep -F "$VERSION"
