#!/usr/bin/env bash
# Builds kube-apiserver, kube-controller-manager, kube-scheduler and kubelet 1.20.2 from Debian's source package, into
# the folder SPAE_KUBE_BIN. Nothing is done if they are there. Needs Debian 12 and:
#   apt-get install -y --no-install-recommends golang-go golang-github-modern-go-reflect2-dev rsync jq dpkg-dev
# MIRROR: where Debian's packages are, if not where the lists of apt say first.
# Costs about 10 minutes on two cores (JOBS of them are used), 3 GB of disk while it runs, 350 MB after it.
#
#   export SPAE_KUBE_BIN=~/kube; tests/integration/labs/kubernetes/build.sh
set -euo pipefail
bin=${SPAE_KUBE_BIN:?a folder for the programs} jobs=${JOBS:-2}
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet)
mkdir -p "$bin"
bin=$(readlink -f "$bin")
missing=()
for each in "${programs[@]}"; do [ -x "$bin/$each" ] || missing+=("$each"); done
[ ${#missing[@]} -gt 0 ] || { echo "all programs are in $bin"; exit 0; }
lacking=()
for each in go rsync jq dpkg-source make perl; do command -v "$each" > /dev/null || lacking+=("$each"); done
[ -d /usr/share/gocode/src/github.com/modern-go/reflect2 ] || lacking+=(golang-github-modern-go-reflect2-dev)
[ ${#lacking[@]} = 0 ] || { printf 'not here: %s\n' "${lacking[@]}" >&2; exit 3; }
work=$(mktemp -d "${TMPDIR:-/tmp}/kube-build-XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work"

# lists of our own: the machine's are not changed
mkdir -p lists/partial home
lists=()
for each in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do [ ! -f "$each" ] || lists+=("$each"); done
found=$(sed -nE 's/^(URIs:|deb) +(\[[^]]*\] +)?([^ ]+).*/\3/p' /dev/null "${lists[@]}" | sed -n 1p)
mirror=${MIRROR:-${found:-http://deb.debian.org/debian}}
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main" > sources.list
apt=(apt-get -qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
  -o "Dir::State::lists=$work/lists" -o APT::Sandbox::User=root)
"${apt[@]}" update
"${apt[@]}" source --download-only "kubernetes=1.20.5+really1.20.2-1.1+deb12u1"
# apt has checked signature and sums; dpkg-source would look for the maintainer's own key, which few have
dpkg-source --no-check --extract kubernetes_*.dsc source > /dev/null
cd source

# with Go 1.19 the vendored version crashes the apiserver at the first custom resource
reflect=vendor/github.com/modern-go/reflect2
rm -rf "$reflect"
cp -rL /usr/share/gocode/src/github.com/modern-go/reflect2 "$reflect"
rm -f "$reflect"/*_test.go
# kr8s looks kinds up by their singular names, which servers before 1.27 leave out for built-in kinds
file=staging/src/k8s.io/apiserver/pkg/endpoints/installer.go
perl -0pi -e 's/(apiResource\.Kind = gvk\.Kind\n\t\}\n)/$1\tif apiResource.SingularName == "" && !isSubresource {\n\t\tapiResource.SingularName = strings.ToLower(apiResource.Kind)\n\t}\n/' "$file"
grep -q 'strings.ToLower(apiResource.Kind)' "$file" || { echo "$file is not as expected" >&2; exit 1; }

cat > "$work/version" << 'EOV'
KUBE_GIT_COMMIT='debian'
KUBE_GIT_TREE_STATE='archive'
KUBE_GIT_VERSION='v1.20.2'
KUBE_GIT_MAJOR='1'
KUBE_GIT_MINOR='20'
EOV
export GOPATH=$PWD/.go HOME=$work/home CGO_ENABLED=0 GO111MODULE=auto KUBE_GIT_VERSION_FILE=$work/version
export GOLDFLAGS="-s -w" GOFLAGS="-p=$jobs" GOMAXPROCS=$jobs
mkdir -p .go/src/k8s.io
ln -s ../../.. .go/src/k8s.io/kubernetes
make WHAT="${missing[*]/#/cmd/}"
for each in "${missing[@]}"; do install _output/local/bin/linux/*/"$each" "$bin/"; done
ls -l "$bin"
