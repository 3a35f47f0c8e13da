# Commands of Kubernetes from its Go module. Environment: VERSION (v1.x.y), COMMANDS.
mkdir -p /build/source /out/bin
cd /build/source
rm -f go.mod go.sum

# Its go.mod replaces the staging modules by folders, which exist only in its own repository: a consumer must map them
# back to their releases, v0.x.y.
module=k8s.io/kubernetes
folder=$(go mod download -json "$module@$VERSION" | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p')
{
    echo "module kube"
    grep '^go ' "$folder/go.mod"
    echo "require $module $VERSION"
    sed -n "s|^[[:space:]]*\(k8s.io/[^ ]*\) => ./staging.*|replace \1 => \1 v0.${VERSION#v1.}|p" "$folder/go.mod"
} > go.mod

# Without a stamp the server calls itself v0.0.0-master and clients cannot tell what it can do.
minor=${VERSION#v1.}
stamp=
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    stamp+=" -X $package.gitVersion=$VERSION -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
    stamp+=" -X $package.gitTreeState=clean -X $package.gitCommit=$VERSION -X $package.buildDate=1970-01-01T00:00:00Z"
done
packages=()
for command in $COMMANDS; do
    packages+=("$module/cmd/$command")
done
go build -v -trimpath -ldflags "-s -w$stamp" -o /out/bin/ "${packages[@]}"
for command in $COMMANDS; do
    { "/out/bin/$command" --version || "/out/bin/$command" version --client; } 2>&1 | grep -F "$VERSION"
done
