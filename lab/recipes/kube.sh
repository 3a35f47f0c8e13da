# Commands of Kubernetes from its Go module. Environment: VERSION (v1.x.y), MODULES, COMMANDS.
. /recipes/go-module.sh

# Without a stamp the server calls itself v0.0.0-master and clients cannot tell what it can do.
minor=${VERSION#v1.}
stamp=
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    stamp+=" -X $package.gitVersion=$VERSION -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
    stamp+=" -X $package.gitTreeState=clean -X $package.gitCommit=$VERSION -X $package.buildDate=1970-01-01T00:00:00Z"
done
packages=()
for command in $COMMANDS; do
    packages+=("k8s.io/kubernetes/cmd/$command")
done
go build -v -trimpath -ldflags "-s -w$stamp" -o /out/bin/ "${packages[@]}"
for command in $COMMANDS; do
    { "/out/bin/$command" --version || "/out/bin/$command" version --client; } 2>&1 | grep -F "$VERSION"
done
