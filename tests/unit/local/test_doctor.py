from headrace_local.doctor import Check, doctor
from headrace_local.options import StackOptions


def by_name(checks):
    return {check.name: check for check in checks}


def test_a_complete_installation_has_no_problem(tmp_path):
    checks = doctor(tmp_path, StackOptions(engine="none"))
    assert [check for check in checks if check.verdict == "problem"] == []
    assert {"python", "postgres", "s3", "broker", "memory", "disk", "ports"} <= set(by_name(checks))


def test_kafka_without_its_home_is_a_problem_with_its_mend(tmp_path, monkeypatch):
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    check = by_name(doctor(tmp_path, StackOptions(broker="kafka", engine="none")))["kafka"]
    assert check == Check(
        "kafka", "problem", "HEADRACE_BROKER=kafka needs KAFKA_HOME: the folder of Apache Kafka with its libs/."
    )


def test_a_missing_model_is_a_problem_with_its_mend(tmp_path):
    check = by_name(doctor(tmp_path, StackOptions(model=str(tmp_path))))["model"]
    assert check.verdict == "problem"
    assert "config.json" in check.says


def test_every_check_is_one_sentence(tmp_path):
    for check in doctor(tmp_path, StackOptions()):
        assert check.says.strip()
        assert "\n" not in check.says
