"""The one place that knows a learner: to add one, add a record here, and mathematics where it is new."""

from __future__ import annotations

from typing import Any

from divulge.errors import BadInput
from divulge.learners.records import Estimator, Learner, Setup

_ALPHA = {"alpha": "alpha"}
_CHOSEN = {"alpha": "alpha_"}
_BOTH = {"alpha": "alpha", "l1_ratio": "l1_ratio"}
_COMMON = ("fit_intercept", "max_iter", "tol")
_RIDGE = (*_COMMON, "positive", "solver", "random_state")
_DESCENT = (*_COMMON, "positive", "precompute", "selection", "random_state")
_LOGISTIC = (*_COMMON, "solver", "dual", "class_weight", "intercept_scaling", "random_state")
_LINEAR_SVC = (*_COMMON, "loss", "penalty", "dual", "multi_class", "class_weight", "intercept_scaling", "random_state")
_SVM = ("max_iter", "tol", "shrinking")
_SGD = (
    *_COMMON, "loss", "penalty", "shuffle", "learning_rate", "eta0", "power_t", "early_stopping", "validation_fraction",
    "n_iter_no_change", "average", "random_state",
)  # fmt: skip
_MLP = (
    "activation", "hidden_layer_sizes", "solver", "batch_size", "learning_rate", "learning_rate_init", "power_t", "max_iter",
    "shuffle", "random_state", "tol", "momentum", "nesterovs_momentum", "early_stopping", "validation_fraction", "beta_1",
    "beta_2", "n_iter_no_change", "max_fun", "loss",
)  # fmt: skip
_SUPPORT = ("support", "support_vectors")
_SGD_LOSSES = {
    "hinge": "hinge", "log_loss": "logistic", "squared_hinge": "squared_hinge", "modified_huber": "modified_huber",
    "squared_error": "squared",
}  # fmt: skip
_UNDECIDED = "the learner does not train to a minimum that its penalty alone decides"

# As scikit-learn sets its solvers up.
_BY_DESCENT = {"tol": 1e-4, "max_iter": 1000, "selection": "cyclic"}
_BY_SVD = {"solver": "svd"}
_BY_LBFGS = {"solver": "lbfgs", "tol": 1e-4, "max_iter": 100}
_BY_SAGA = {"solver": "saga", "tol": 1e-4, "max_iter": 100}
_BY_LIBLINEAR = {"solver": "liblinear", "tol": 1e-4, "max_iter": 100, "intercept_scaling": 1, "dual": False}
_BY_LINEAR_SVC = {"tol": 1e-4, "max_iter": 1000, "intercept_scaling": 1, "dual": "auto", "multi_class": "ovr"}

# As far towards the minimum as each solver comes in double precision.
_RIDGE_TIGHT: tuple[Any, ...] = (({"positive": True}, {"tol": 1e-14}), ({}, {"solver": "cholesky"}))
_DESCENT_TIGHT: tuple[Any, ...] = (({}, {"tol": 1e-13, "max_iter": 100_000, "selection": "cyclic"}),)
_NEWTON_TIGHT = {"tol": 1e-13, "max_iter": 10_000, "solver": "newton-cholesky"}
_SVM_TIGHT: tuple[Any, ...] = (({}, {"tol": 1e-10}),)

_RECORDS = (
    Learner(
        "ridge",
        Estimator("sklearn.linear_model.Ridge", _ALPHA, _RIDGE),
        variants=(
            Estimator("sklearn.linear_model.RidgeCV", _CHOSEN, ("fit_intercept",), replayed=False, fixed=_BY_SVD),
        ),
        loss="squared",
        tight=_RIDGE_TIGHT,
        setups=(Setup("ridge", {"solver": "cholesky"}),),
        tuning={},
        differentiated=True,
    ),
    Learner(
        "lasso",
        Estimator("sklearn.linear_model.Lasso", _ALPHA, _DESCENT, ("n_iter",)),
        variants=(Estimator("sklearn.linear_model.LassoCV", _CHOSEN, _DESCENT, ("n_iter",)),),
        loss="squared",
        penalty="l1",
        averaged=True,
        tight=_DESCENT_TIGHT,
        setups=(Setup("lasso", _BY_DESCENT),),
        tuning={},
        differentiated=True,
    ),
    Learner(
        "elastic_net",
        Estimator("sklearn.linear_model.ElasticNet", _BOTH, _DESCENT, ("n_iter",)),
        variants=(
            Estimator(
                "sklearn.linear_model.ElasticNetCV", {"alpha": "alpha_", "l1_ratio": "l1_ratio_"}, _DESCENT, ("n_iter",)
            ),
        ),
        loss="squared",
        penalty="elasticnet",
        averaged=True,
        tight=_DESCENT_TIGHT,
        setups=(Setup("elastic net", _BY_DESCENT, ("ridge", "lasso")),),
        differentiated=True,
    ),
    Learner(
        "kernel_ridge",
        Estimator("sklearn.kernel_ridge.KernelRidge", {"alpha": "alpha", "gamma": "gamma"}),
        form="kernel",
        loss="squared",
        solver="cholesky",
        setups=(Setup("kernel ridge", dual=True),),
    ),
    Learner(
        "poisson",
        Estimator("sklearn.linear_model.PoissonRegressor", _ALPHA, (*_COMMON, "solver"), ("n_iter",)),
        loss="poisson",
        averaged=True,
        solver="lbfgs",
        stops_by_gradient=("lbfgs", "newton-cholesky"),
        tight=(({}, _NEWTON_TIGHT),),
        setups=(Setup("Poisson regression", _BY_LBFGS),),
    ),
    Learner(
        "huber",
        Estimator(
            "sklearn.linear_model.HuberRegressor", {"alpha": "alpha", "epsilon": "epsilon"}, _COMMON, ("scale", "n_iter")
        ),
        loss="huber",
        no_path="no solver here comes near enough to the minimum of Huber's loss",
        setups=(Setup("Huber regression", {"tol": 1e-5, "max_iter": 100}, ("ridge",)),),
    ),
    Learner(
        "svr",
        Estimator("sklearn.svm.SVR", {"C": "C", "epsilon": "epsilon", "gamma": "_gamma"}, _SVM, _SUPPORT),
        form="support vectors",
        unit="C",
        tight=_SVM_TIGHT,
        setups=(Setup("SVR", {"tol": 1e-3}, dual=True),),
    ),
    Learner(
        "sgd_regressor",
        Estimator("sklearn.linear_model.SGDRegressor", _BOTH, _SGD),
        losses=_SGD_LOSSES,
        averaged=True,
        stochastic=True,
        no_path=_UNDECIDED,
    ),
    Learner(
        "mlp_regressor",
        Estimator("sklearn.neural_network.MLPRegressor", _ALPHA, _MLP),
        form="network",
        losses={"squared_error": "squared"},
        stochastic=True,
        no_path=_UNDECIDED,
    ),
    Learner(
        "network",
        None,
        form="network",
        targets="either",
        unit="weight_decay",
        averaged=True,
        decays_biases=True,  # torch decays biases too, scikit-learn leaves them free
        no_path=_UNDECIDED,
    ),
    Learner(
        "ridge_classifier",
        Estimator("sklearn.linear_model.RidgeClassifier", _ALPHA, (*_RIDGE, "class_weight")),
        targets="classes",
        variants=(
            Estimator(
                "sklearn.linear_model.RidgeClassifierCV",
                _CHOSEN, ("fit_intercept", "class_weight"), replayed=False, fixed=_BY_SVD,
            ),
        ),
        loss="squared",
        tight=_RIDGE_TIGHT,
        setups=(Setup("ridge classifier", {"solver": "cholesky"}),),
        tuning={},
        differentiated=True,
    ),
    Learner(
        "logistic",
        Estimator(
            "sklearn.linear_model.LogisticRegression", {"C": "C", "l1_ratio": "l1_ratio"}, _LOGISTIC, ("n_iter",)
        ),
        targets="classes",
        variants=(
            Estimator(
                "sklearn.linear_model.LogisticRegressionCV",
                {"C": "C_", "l1_ratio": "l1_ratio_"}, _LOGISTIC, ("n_iter",), replayed=False,
            ),
        ),
        loss="logistic",
        multiclass="softmax",
        penalty_is_ratio=True,
        unit="C",
        wrapped=True,
        stops_by_gradient=("lbfgs", "newton-cg", "newton-cholesky"),
        tight=(
            ({"solver": "liblinear"}, {"tol": 1e-10, "max_iter": 10_000, "random_state": 0}),
            ({"penalty": "l2"}, _NEWTON_TIGHT),
            ({}, {"tol": 1e-9, "max_iter": 20_000, "solver": "saga", "random_state": 0}),
        ),
        setups=(
            Setup("logistic regression, L2", {**_BY_LBFGS, "penalty": "l2"}),
            Setup("logistic regression, L1", {**_BY_SAGA, "penalty": "l1"}),
            Setup(
                "logistic regression, elastic net",
                {**_BY_SAGA, "penalty": "elasticnet"},
                ("logistic regression, L2", "logistic regression, L1"),
            ),
            Setup("logistic regression of liblinear, L2", {**_BY_LIBLINEAR, "penalty": "l2", "multi_class": "ovr"}),
            Setup("logistic regression of liblinear, L1", {**_BY_LIBLINEAR, "penalty": "l1", "multi_class": "ovr"}),
        ),
        tuning={},
        differentiated=True,
    ),
    Learner(
        "linear_svc",
        Estimator("sklearn.svm.LinearSVC", {"C": "C"}, _LINEAR_SVC, ("n_iter",)),
        targets="classes",
        loss="squared_hinge",
        losses={"squared_hinge": "squared_hinge", "hinge": "hinge"},
        unit="C",
        one_vs_rest=True,
        wrapped=True,
        solver="liblinear",
        tight=(({}, {"tol": 1e-10, "max_iter": 50_000, "random_state": 0}),),
        setups=(
            Setup("linear SVM, squared hinge, L2", {**_BY_LINEAR_SVC, "loss": "squared_hinge", "penalty": "l2"}),
            Setup("linear SVM, squared hinge, L1", {**_BY_LINEAR_SVC, "loss": "squared_hinge", "penalty": "l1"}),
            Setup("linear SVM, hinge", {**_BY_LINEAR_SVC, "loss": "hinge", "penalty": "l2"}),
        ),
        tuning={"dual": False},  # the primal solver draws no random numbers
        differentiated=True,
    ),
    Learner(
        "svc",
        Estimator("sklearn.svm.SVC", {"C": "C", "gamma": "_gamma"}, (*_SVM, "class_weight"), _SUPPORT),
        form="support vectors",
        targets="classes",
        loss="hinge",
        unit="C",
        tight=_SVM_TIGHT,
        setups=(Setup("SVC with a linear kernel", {"tol": 1e-3}), Setup("SVC", {"tol": 1e-3}, dual=True)),
        tuning={},
    ),
    Learner(
        "sgd_classifier",
        Estimator("sklearn.linear_model.SGDClassifier", _BOTH, (*_SGD, "class_weight")),
        targets="classes",
        losses=_SGD_LOSSES,
        averaged=True,
        one_vs_rest=True,
        stochastic=True,
        no_path=_UNDECIDED,
    ),
    Learner(
        "mlp_classifier",
        Estimator("sklearn.neural_network.MLPClassifier", _ALPHA, _MLP),
        form="network",
        targets="classes",
        stochastic=True,
        no_path=_UNDECIDED,
    ),
    # Learners of Wang and Gong (2018) that scikit-learn lacks.
    Learner(
        "kernel_logistic",
        Estimator("divulge.victims.kernels.KernelLogistic", _ALPHA, ("penalty",)),
        form="kernel",
        targets="classes",
        loss="logistic",
        setups=(
            Setup("kernel logistic regression, L2", {"penalty": "l2"}, dual=True),
            Setup("kernel logistic regression, L1", {"penalty": "l1"}, dual=True),
        ),
    ),
    Learner(
        "kernel_svm",
        Estimator("divulge.victims.kernels.KernelSVM", _ALPHA),
        form="kernel",
        targets="classes",
        loss="squared_hinge",
        setups=(Setup("kernel SVM, squared hinge", dual=True),),
    ),
)  # fmt: skip

LEARNERS: dict[str, Learner] = {record.name: record for record in _RECORDS}
"Name -> record: regressions first, then classifiers."

ESTIMATORS: dict[str, tuple[Learner, Estimator]] = {
    estimator.title: (record, estimator)
    for record in _RECORDS
    for estimator in (record.estimator, *record.variants)
    if estimator is not None
}
"Name of a class -> the learner that it fits, and how it is read."


def learner_named(name: str) -> Learner:
    """The record of a learner."""
    if name not in LEARNERS:
        raise BadInput(f"expected a learner out of {', '.join(LEARNERS)}, got {name!r}; fit one of these")
    return LEARNERS[name]
