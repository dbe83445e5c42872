#!/usr/bin/env bash
# A Kubernetes of one node with the Dask operator, to try things on: everything under the folder SPAE_KUBE_LAB and in
# network and mount namespaces of its own, with the loopback interface and no other. Root, Debian 12, no systemd.
#
#   export SPAE_KUBE_BIN=~/kube SPAE_KUBE_LAB=/tmp/lab SPAE_KUBE_IMAGES=images.tar
#   tests/integration/labs/kubernetes/build.sh                     # once: the four programs of Kubernetes
#   tests/integration/labs/kubernetes/lab.sh up                    # half a minute; 3 GB of memory with an image of 900 MB
#   tests/integration/labs/kubernetes/lab.sh in kubectl get nodes  # any command, where the cluster is
#   tests/integration/labs/kubernetes/lab.sh down                  # ends it, its pods first, and removes the folder
#
# SPAE_KUBE_IMAGES is an archive with the images of the pods, and with localhost/pause:1, whose only work is to sleep:
#   printf 'FROM localhost/spae:dev\nENTRYPOINT ["tini", "--", "sleep", "infinity"]\n' | buildah build -t localhost/pause:1 -
#   podman save --multi-image-archive --output images.tar localhost/pause:1 localhost/spae:dev
# Also needed: kubectl, PYTHON (python3) with dask-kubernetes, and
#   apt-get install -y --no-install-recommends etcd-server containerd runc containernetworking-plugins \
#     iproute2 iptables dnsmasq-base openssl curl jq
#
# What is missing is listed, and the exit code is 3.
#
# Pods use the node's network (hostNetwork), so no two of them listen on one port: one Dask cluster at a time. Every
# service of the cluster has the address 127.0.0.1. The node claims CPUS (8) cores, however many the machine has.
# What service accounts ask the server for is in log/audit.log, an event a line.
set -euo pipefail
self=$(readlink -f "$0")
lab=$(readlink -m "${SPAE_KUBE_LAB:?a folder for all state, which down removes}")
cpus=${CPUS:-8} python=${PYTHON:-python3} node=lab url=https://127.0.0.1:6443 socket=$lab/run/containerd.sock

inside() { exec nsenter --target "$(cat "$lab/run/namespace.pid")" --net --mount --wdns="$PWD" env KUBECONFIG="$lab/kubeconfig" "$@"; }

daemon() { # NAME COMMAND...
  local name=$1
  shift
  setsid nohup "$@" > "$lab/log/$name.log" 2>&1 < /dev/null &
  echo $! > "$lab/run/$name.pid"
}

wait_for() { # SECONDS WHAT COMMAND...
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" > /dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || { echo "$what did not come up; logs are in $lab/log" >&2; return 1; }
    sleep 0.2
  done
}

needed() {
  local missing=()
  for each in etcd containerd ctr runc ip unshare nsenter dnsmasq openssl curl jq iptables kubectl "$python"; do
    command -v "$each" > /dev/null || missing+=("$each")
  done
  for each in kube-apiserver kube-controller-manager kube-scheduler kubelet; do
    [ -x "$SPAE_KUBE_BIN/$each" ] || missing+=("$SPAE_KUBE_BIN/$each")
  done
  [ -x /usr/lib/cni/loopback ] || missing+=(/usr/lib/cni/loopback)
  "$python" -c "import kopf, dask_kubernetes" 2> /dev/null || missing+=("dask-kubernetes for $python")
  [ -r "$SPAE_KUBE_IMAGES" ] || missing+=("$SPAE_KUBE_IMAGES")
  [ "$(id -u)" = 0 ] || missing+=(root)
  [ ${#missing[@]} = 0 ] || { printf 'not here: %s\n' "${missing[@]}" >&2; exit 3; }
}

# What is mounted here is seen in the namespace only, and ends with it.
namespace() {
  ip link set lo up
  # in memory: a disk that is busy with other things makes etcd time out, and images take minutes
  for each in etcd images; do mount -t tmpfs -o mode=700 tmpfs "$lab/$each"; done
  echo "127.0.0.1 localhost $(hostname)" > "$lab/etc/hosts"
  printf 'nameserver 127.0.0.1\nsearch svc.cluster.local cluster.local\noptions ndots:5\n' > "$lab/etc/resolv.conf"
  for each in hosts resolv.conf; do mount --bind "$lab/etc/$each" "/etc/$each"; done
  # the kubelet sets these for the whole machine: it finds files that have its values already
  for each in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    mkdir -p "$lab/sys/$(dirname "${each%=*}")"
    echo "${each#*=}" > "$lab/sys/${each%=*}"
    mount --bind "$lab/sys/${each%=*}" "/proc/sys/${each%=*}"
  done
  for n in $(seq 0 $((cpus - 1))); do
    mkdir -p "$lab/sys/node/node0/cpu$n/topology" "$lab/sys/node/node0/hugepages"
    echo "$n" > "$lab/sys/node/node0/cpu$n/topology/core_id"
    echo 0 > "$lab/sys/node/node0/cpu$n/topology/physical_package_id"
    echo 1 > "$lab/sys/node/node0/cpu$n/online"
  done
  awk '/^MemTotal/ {print "Node 0 " $0}' /proc/meminfo > "$lab/sys/node/node0/meminfo"
  [ ! -d /sys/devices/system/node ] || mount --bind "$lab/sys/node" /sys/devices/system/node
  touch "$lab/run/namespace.ready"
  exec sleep infinity
}

control_plane() {
  openssl genrsa -out "$lab/pki/sa.key" 2048 2> /dev/null
  local token etcd=http://127.0.0.1:2379
  token=$(openssl rand -hex 16)
  echo "$token,admin,admin,\"system:masters\"" > "$lab/pki/tokens.csv"
  cat > "$lab/kubeconfig" << EOC
apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "$url", certificate-authority: "$lab/pki/apiserver.crt"}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: lab, context: {cluster: lab, user: admin, namespace: default}}]
current-context: lab
EOC
  daemon dns dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --listen-address=127.0.0.1 \
    --bind-interfaces --user=root --pid-file= --address=/cluster.local/127.0.0.1
  daemon etcd etcd --data-dir "$lab/etcd" --listen-client-urls $etcd --advertise-client-urls $etcd \
    --listen-peer-urls http://127.0.0.1:2380
  # neither the administrator nor the lab itself
  cat > "$lab/etc/audit.yaml" << EOC
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: None, userGroups: ["system:masters"]}, {level: Metadata}]
EOC
  # addresses of services are loopback ones, which reach whoever listens on all addresses: no kube-proxy
  daemon apiserver "$SPAE_KUBE_BIN/kube-apiserver" --etcd-servers=$etcd --bind-address=127.0.0.1 \
    --advertise-address=127.0.0.1 --secure-port=6443 --endpoint-reconciler-type=none --cert-dir="$lab/pki" \
    --token-auth-file="$lab/pki/tokens.csv" --authorization-mode=RBAC --anonymous-auth=false --allow-privileged=true \
    --audit-policy-file="$lab/etc/audit.yaml" --audit-log-path="$lab/log/audit.log" \
    --service-cluster-ip-range=127.96.0.0/16 --service-account-issuer=$url \
    --service-account-key-file="$lab/pki/sa.key" --service-account-signing-key-file="$lab/pki/sa.key"
  wait_for 60 "the API server" kubectl get --raw /readyz
  daemon controllers "$SPAE_KUBE_BIN/kube-controller-manager" --kubeconfig="$lab/kubeconfig" --leader-elect=false \
    --service-account-private-key-file="$lab/pki/sa.key" --root-ca-file="$lab/pki/apiserver.crt" \
    --controllers='*,-nodeipam,-route,-cloud-node-lifecycle' --bind-address=127.0.0.1 --port=0 \
    --cert-dir="$lab/pki/controllers"
  daemon scheduler "$SPAE_KUBE_BIN/kube-scheduler" --kubeconfig="$lab/kubeconfig" --leader-elect=false \
    --bind-address=127.0.0.1 --port=0 --cert-dir="$lab/pki/scheduler"
  wait_for 60 "the controllers" kubectl get serviceaccount default
}

worker_node() {
  echo '{"cniVersion": "0.4.0", "name": "lo", "plugins": [{"type": "loopback"}]}' > "$lab/cni/10-lo.conflist"
  cat > "$lab/etc/containerd.toml" << EOC
version = 2
root = "$lab/images"
state = "$lab/run/containerd"
[grpc]
  address = "$socket"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_hugetlb_controller = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$lab/cni"
EOC
  daemon containerd containerd --config "$lab/etc/containerd.toml"
  wait_for 30 containerd ctr --address "$socket" version
  ctr --address "$socket" --namespace k8s.io images import "$SPAE_KUBE_IMAGES"
  # a kubelet refuses a loopback address of its own, but leaves alone one that somebody else gave its node
  local token
  token=$(cut -d, -f1 "$lab/pki/tokens.csv")
  kubectl create -f - << EOC
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "$node", "labels": {"kubernetes.io/hostname": "$node"}}}
EOC
  kubectl get --raw "/api/v1/nodes/$node" |
    jq '.status.addresses = [{type: "InternalIP", address: "127.0.0.1"}, {type: "Hostname", address: "127.0.0.1"}]' |
    curl -sSf -o /dev/null --cacert "$lab/pki/apiserver.crt" -H "Authorization: Bearer $token" \
      -H "Content-Type: application/json" -X PUT --data-binary @- "$url/api/v1/nodes/$node/status"
  cat > "$lab/etc/kubelet.yaml" << EOC
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
healthzBindAddress: 127.0.0.1
readOnlyPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
clusterDNS: [127.0.0.1]
clusterDomain: cluster.local
resolvConf: $lab/etc/resolv.conf
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
oomScoreAdj: 0
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 200Mi, nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
nodeStatusUpdateFrequency: 5s
EOC
  daemon kubelet "$SPAE_KUBE_BIN/kubelet" --config="$lab/etc/kubelet.yaml" --kubeconfig="$lab/kubeconfig" \
    --hostname-override=$node --register-node=false --cloud-provider=external --container-runtime=remote \
    --container-runtime-endpoint="unix://$socket" --root-dir="$lab/kubelet" --cert-dir="$lab/pki/kubelet"
  kubectl wait --for=condition=Ready "node/$node" --timeout=60s
}

operator() {
  local charts
  charts=$("$python" -c "import dask_kubernetes.operator as o; print(o.__path__[0])")/deployment/helm/dask-kubernetes-operator
  kubectl create -f "$charts/crds"
  # kubectl fails at kinds that have no conditions yet
  wait_for 60 "the kinds of the operator" kubectl wait --for=condition=Established crd --all --timeout=5s
  daemon operator "$python" -m kopf run --module dask_kubernetes.operator.controller --all-namespaces --standalone
}

members() { # process ids in the namespace
  local mine
  mine=$(readlink "/proc/$(cat "$lab/run/namespace.pid")/ns/net") || return 0
  for each in /proc/[0-9]*; do
    [ "$(readlink "$each/ns/net" 2> /dev/null)" != "$mine" ] || echo "${each#/proc/}"
  done
}

containers_end() {
  local ctr=(ctr --address "$socket" --namespace k8s.io)
  for each in $("${ctr[@]}" tasks list --quiet); do "${ctr[@]}" tasks kill --signal KILL "$each"; done
  sleep 0.5
  for each in $("${ctr[@]}" containers list --quiet); do
    "${ctr[@]}" tasks delete --force "$each"
    "${ctr[@]}" containers delete "$each"
  done
}

down() {
  set +e
  [ -f "$lab/run/namespace.pid" ] || { echo "$lab is not a folder of lab.sh up" >&2; exit 2; }
  for each in operator kubelet; do kill "$(cat "$lab/run/$each.pid")"; done 2> /dev/null
  sleep 0.5
  [ ! -S "$socket" ] || containers_end > /dev/null 2>&1 # so that runc removes their control groups
  local left signal
  left=$(members)
  for signal in TERM KILL; do
    [ -z "$left" ] || kill -s $signal $left 2> /dev/null
    for _ in $(seq 50); do
      sleep 0.1
      left=$(for each in $left; do [ -d "/proc/$each" ] && echo "$each"; done)
      [ -n "$left" ] || break
    done
  done
  find /sys/fs/cgroup -mindepth 2 -depth -path '*/k8s.io*' -type d -exec rmdir {} + 2> /dev/null # those in use stay
  rm -rf "$lab"
}

case ${1:-} in
  up)
    : "${SPAE_KUBE_BIN:?the folder of the programs, see build.sh}" "${SPAE_KUBE_IMAGES:?an archive of images}"
    needed
    [ ! -e "$lab" ] || { echo "$lab is there already: run down first, or set SPAE_KUBE_LAB to another" >&2; exit 2; }
    mkdir -p "$lab"/{cni,etc,etcd,images,kubelet,log,pki,run,sys}
    chmod 700 "$lab"
    trap '[ $? = 0 ] || echo "the lab is not up: see $lab/log, then run down" >&2' EXIT
    daemon namespace unshare --net --mount --propagation slave "$self" namespace
    wait_for 10 "the namespace" test -e "$lab/run/namespace.ready"
    for part in control_plane worker_node operator; do (inside "$self" $part); done
    ;;
  in)
    shift
    inside "$@"
    ;;
  down) down ;;
  namespace | control_plane | worker_node | operator) "$1" ;; # in the namespace
  *)
    echo "usage: lab.sh up | in COMMAND... | down" >&2
    exit 2
    ;;
esac
