# What makes a machine a node of a cluster. In: /kube/kubelet    Out: /build/content/{bin,cni}
cd /build
rm -rf content cni containernetworking-plugins_*.deb
apt-get -q -o APT::Sandbox::User=root download containernetworking-plugins
dpkg-deb -x containernetworking-plugins_*.deb cni
install -D -m 755 -t content/bin /kube/kubelet
cp -a cni/usr/lib/cni content/cni
