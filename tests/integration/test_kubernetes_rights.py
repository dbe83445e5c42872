"""On a real control plane: the role of deploy is enough for all commands, and no more; what is said without a right."""

import shutil
import subprocess
import time

import pytest
import yaml

from tests.integration.conftest import bits_of, ended
from tests.integration.kubernetes_lab import DEPLOY, running_lab

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

NEWER_SERVERS = {("", "pods/portforward", "create")}
"""What servers ask of newer releases than the lab's."""


@pytest.fixture(scope="module")
def lab(data):
    with running_lab() as made:
        shutil.copytree(data, made.folder / "x.zarr")
        yield made


@pytest.fixture(autouse=True)
def nothing_left(lab):
    lab.wait_for_nothing()
    shutil.rmtree(lab.results / "run", ignore_errors=True)
    yield
    lab.clear()


def role():
    """The rules of the role of deploy."""
    (found,) = (each for each in yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text()) if each["kind"] == "Role")
    return found["rules"]


def rights(rules):
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def account(lab, name, rules):
    """Commands of a new service account that has these rights."""
    api = "rbac.authorization.k8s.io"
    reference = {"apiGroup": api, "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "spae"}
    for version, kind, more in (
        ("v1", "ServiceAccount", {}),
        (f"{api}/v1", "Role", {"rules": rules}),
        (f"{api}/v1", "RoleBinding", {"roleRef": reference, "subjects": [subject]}),
    ):
        document = {"apiVersion": version, "kind": kind, "metadata": {"name": name}} | more
        lab.kubectl("create", "--filename", "-", text=yaml.safe_dump(document))
    return lab.of_account(name)


def test_the_role_of_deploy_is_what_the_commands_ask_for_and_no_more(lab, serial):
    user = lab.of_account("spae")
    with user.started(*user.fit_words(), outside=True) as process:
        code, _, err = ended(process, 400)
    assert code == 0, err
    assert bits_of(lab.folder / "e.zarr") == serial
    lab.wait_for_nothing()

    with user.started(*user.fit_words(image='"localhost/none:1"')) as process:
        code, _, err = ended(process, 400)
    assert code == 6
    assert "ErrImageNeverPull" in err
    user.kubectl("get", "daskclusters")  # as errors say one should
    lab.wait_for_nothing()

    for workers in ("2", "0"):
        advice = user.submitted(workers=workers)
        assert "spae-p" in user.follow(advice, "watch")
        assert "enc  fit " in logged(user, advice)
        user.follow(advice, "remove")
        lab.wait_for_nothing()

    advice = user.submitted()
    user.follow(advice, "remove")  # while it runs
    lab.wait_for_nothing()

    advice = user.submitted(workers="0", driver='{ memory = "300GiB", walltime = "10m" }')  # more than the quota
    with pytest.raises(AssertionError, match="timed out waiting for the condition"):
        user.follow(advice.replace("--follow", "--pod-running-timeout=2s"), "log")
    user.follow(advice, "remove")

    asked = lab.asked("spae")
    assert {right for right, answers in asked.items() if answers != {"allow"}} == set()
    assert set(asked) == rights(role()) - NEWER_SERVERS


def logged(user, advice):
    """The log, followed to its end; until the pod has begun there is none."""
    end = time.monotonic() + 120
    while True:
        try:
            return user.follow(advice, "log")
        except AssertionError as error:
            if time.monotonic() > end or not any(each in str(error) for each in ("not found", "ContainerCreating")):
                raise
        time.sleep(0.5)


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ("daskclusters", 'cannot create resource "daskclusters"'),
        ("pods", 'cannot list resource "pods"'),
        ("services", 'cannot list resource "services"'),
        ("pods/portforward", "/portforward cannot be opened: 403 Forbidden"),
    ],
)
def test_a_right_that_is_missing_is_told_at_once(lab, without, said):
    rules = [each for each in role() if each["resources"] != [without]]
    assert len(rules) == len(role()) - 1
    user = account(lab, f"without-{without.replace('/', '-')}", rules)
    with user.started(*user.fit_words(timeout='"10m"'), outside=True) as process:
        code, _, err = ended(process, 300)  # half of the timeout of the file
    assert code == 6, err
    assert said in err
    assert "the role of deploy/kubernetes/rbac.yaml" in err
    assert "Traceback" not in err
    assert ("may still exist" in err) == (without == "pods")  # whether its pods are gone is not to be seen then
    assert lab.names("daskclusters") == []
    lab.wait_for_nothing()


def test_a_cluster_that_may_not_be_deleted_is_told_of(lab):
    rules = role()
    (found,) = (each for each in rules if each["resources"] == ["daskclusters"])
    found["verbs"].remove("delete")
    user = account(lab, "without-delete", rules)
    with user.started(*user.fit_words()) as process:
        code, _, err = ended(process, 400)
    assert code == 0, err
    (warning,) = (each for each in err.splitlines() if each.startswith("warning: the DaskCluster"))
    command = warning.split("Remove it: ")[1].split(". ")[0]
    subprocess.run(lab.words(*command.split()), check=True, capture_output=True, timeout=120)
    lab.wait_for_nothing()


def test_a_token_that_is_not_known_is_told_of(lab):
    user = lab.of_account("spae")
    text = user.kubeconfig.read_text()
    user.kubeconfig.write_text(text.replace("token: ey", "token: yy"))
    with user.started(*user.fit_words()) as process:
        code, _, err = ended(process, 240)
    assert code == 6
    assert "does not accept the credentials of this user" in err
    assert lab.names() == []
