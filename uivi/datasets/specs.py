"""The table of data sets, with their checksums and public addresses."""

import dataclasses
from functools import partial

from uivi.datasets import formats
from uivi.datasets.records import File, Part, Reader, Source, Spec

_IDX = {
    "train.x": ("train-images-idx3-ubyte.gz", (60_000, 784)),
    "train.y": ("train-labels-idx1-ubyte.gz", (60_000,)),
    "test.x": ("t10k-images-idx3-ubyte.gz", (10_000, 784)),
    "test.y": ("t10k-labels-idx1-ubyte.gz", (10_000,)),
}


_MB = 10**6


def _public(path: str, read: Reader, parts: dict[str, Part], most_bytes: int, *urls: str) -> File:
    """Returns a file that is stored as it is downloaded."""
    return File(path, read, parts, (Source(urls, read, parts, most_bytes),))


def _idx_files(folder: str, mirrors: tuple[str, ...], sha256: dict[str, str]) -> tuple[File, ...]:
    files = []
    for name, (filename, shape) in _IDX.items():
        parts = {name: Part(shape, sha256[name])}
        urls = tuple(f"{mirror}/{filename}" for mirror in mirrors)
        files.append(_public(f"{folder}/{filename}", partial(formats.idx, name), parts, 50 * _MB, *urls))
    return tuple(files)


MNIST = Spec(
    name="mnist",
    description="Handwritten digits (LeCun et al., 1998), 28x28 grey levels 0..255",
    files=_idx_files(
        "mnist",
        ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist"),
        {
            "train.x": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "train.y": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "test.x": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "test.y": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        },
    ),
    num_classes=10,
)

FASHION_MNIST = Spec(
    name="fashion-mnist",
    description="Pictures of clothes (Xiao et al., 2017), 28x28 grey levels 0..255",
    files=_idx_files(
        "fashion-mnist",
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
            # The authors' own place has no https. The checksums guard the content.
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        ),
        {
            "train.x": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "train.y": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "test.x": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "test.y": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        },
    ),
    num_classes=10,
)

_LAROCHELLE = "www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist/binarized_mnist"
_BINARIZED = {
    "train.x": Part((50_000, 784), "43490d4d6ac9002727af4426d8748609fdb7e4094fa65ad8d681ea60082a7a5a"),
    "valid.x": Part((10_000, 784), "069b4f0beb389b776478c3e872b4df71c95ac4be64d7cbe6d32e24ebac8e6d5e"),
    "test.x": Part((10_000, 784), "ca0294c3b8d984c7a1dc891015a8eea6f37bae59a34e35ea0fc8c47110a8dd86"),
}

BINARIZED_MNIST = Spec(
    name="binarized-mnist",
    description="MNIST with Larochelle's fixed binarization, 28x28 pixels 0 or 1, without labels",
    files=(
        File(
            "binarized-mnist/binarized_mnist_packed.npz",
            formats.packed_npz,
            _BINARIZED,
            tuple(
                Source(
                    tuple(f"{scheme}://{_LAROCHELLE}_{name[:-2]}.amat" for scheme in ("https", "http")),
                    partial(formats.amat, name),
                    {name: part},
                    100 * _MB,
                )
                for name, part in _BINARIZED.items()
            ),
            formats.pack_npz,
        ),
    ),
    num_classes=None,
)

# The rows of each class are counted in the recomputed data set, which has one row for each of UCI's.
# UCI's matrix itself was never at hand, so its checksum is not known.
HAPT = Spec(
    name="hapt",
    description=(
        "UCI's smartphone-based recognition of human activities and postural transitions (Reyes-Ortiz et "
        "al., 2016); no pinned checksum: shapes, labels and ranges are checked, the content is not"
    ),
    files=(
        _public(
            "hapt/hapt.zip",
            formats.hapt_zip,
            {
                "train.x": Part((7_767, 561), None),
                "train.y": Part((7_767,), None, (1226, 1073, 987, 1293, 1423, 1413, 47, 23, 75, 60, 90, 57)),
                "test.x": Part((3_162, 561), None),
                "test.y": Part((3_162,), None, (496, 471, 420, 508, 556, 545, 23, 10, 32, 25, 49, 27)),
            },
            400 * _MB,
            "https://archive.ics.uci.edu/static/public/341/smartphone+based+recognition+of+human"
            "+activities+and+postural+transitions.zip",
            "https://archive.ics.uci.edu/ml/machine-learning-databases/00341/HAPT%20Data%20Set.zip",
        ),
    ),
    num_classes=formats.HAPT_CLASSES,
)

HAPT_RECOMPUTED = Spec(
    name="hapt-recomputed",
    description=(
        "Not HAPT: the recordings of HAPT with the 561 features recomputed from the raw signals by the "
        "uivi project; local only, it has no public source, and its results must not be reported as HAPT's"
    ),
    files=(
        File(
            "hapt/hapt_recomputed.npz",
            formats.hapt_npz,
            {
                "train.x": Part(
                    (7_767, 561), "14b4a830a7985533330155d749c59d7d28e68aebd250293557db3daeffd79e48"
                ),
                "train.y": Part((7_767,), "2c70c7bce3863d91660ce24a5d63f68c79ae81a5f75232b7fdeb2fa1fb25dec9"),
                "test.x": Part(
                    (3_162, 561), "70684aae58703db476773ed33740845fe66a887985cd0711817cc9c9e270efc9"
                ),
                "test.y": Part((3_162,), "1cbf6676a508d22e24e7306b317de96c5e479370bf5dc9e065aae1bb3337cff5"),
            },
        ),
    ),
    num_classes=formats.HAPT_CLASSES,
)

_SIVI = "https://raw.githubusercontent.com/mingzhang-yin/SIVI"

WAVEFORM = Spec(
    name="waveform",
    description="Two classes of waveforms, as used by Yin & Zhou (2018); the first column is constant 1",
    files=(
        _public(
            "waveform/waveform.mat",
            formats.waveform_mat,
            {
                "train.x": Part((400, 22), "12810d3c7216f27a37e37786257d1b1b87d0a6864d7b416cb912d8cdd2fe9e52"),
                "train.y": Part((400,), "18b88d3b55079d21985b821b2618bed1c0fd7bed8a22bb3199e23892f27b5fb5"),
                "test.x": Part((4_600, 22), "c756f6885c981a353dc208511b4da5c5dd44c3df4c9f49c365afca5b23411734"),
                "test.y": Part((4_600,), "ee7d348da236ab1d074195f3d46d231857c261281b66d0a03167edb635bee31a"),
            },
            10 * _MB,
            f"{_SIVI}/master/data/waveform.mat",
            f"{_SIVI}/7f33fe198287ceec70f46ebfecfb5ad3d8fbe507/data/waveform.mat",
        ),
    ),
    num_classes=2,
)

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"


def _table(
    path: str, read: Reader, url: str, rows: tuple[int, int], columns: int, sha256: dict[str, str]
) -> tuple[File]:
    """Returns a table of UCI; the checksums are of the split into train and test rows."""
    parts = {}
    for split, count in zip(("train", "test"), rows, strict=True):
        parts[f"{split}.x"] = Part((count, columns), sha256[f"{split}.x"])
        parts[f"{split}.y"] = Part((count,), sha256[f"{split}.y"])
    return (_public(path, read, parts, 10 * _MB, f"{_UCI}/{url}"),)


YACHT = Spec(
    name="yacht",
    description="Resistance of 308 sailing yachts (UCI; Gerritsma et al., 1981); a tenth are test rows",
    files=_table(
        "uci/yacht_hydrodynamics.data",
        formats.table,
        "00243/yacht_hydrodynamics.data",
        (277, 31),
        6,
        {
            "train.x": "d9924b01310a75f5b75659735853718a269f91bdf0cc2218aeb0ab9d915c3f86",
            "train.y": "8ab6e9a6dfb1c7d57ea09e2cb3f0e7eabf4cde48aa755fb060615244b1310ad2",
            "test.x": "7c8c0356b7a2dfbce67fc63260eeae1a55d20d147f6e403cad1af80fcd4f3183",
            "test.y": "737a642ec8b65b9fdb77de72645569f4e89dcf0d88415c87467991a57057519e",
        },
    ),
    num_classes=None,
)

BOSTON = Spec(
    name="boston",
    description="House prices in Boston (UCI; Harrison & Rubinfeld, 1978); a tenth are test rows",
    files=_table(
        "uci/boston_housing.txt",
        formats.table,
        "housing/housing.data",
        (455, 51),
        13,
        {
            "train.x": "c8a97441c8a1fe476d06ff842a93cfc74a0087e31db7a863d730fdb39425b46a",
            "train.y": "f031b7db8c30e91e03f1c646de99bab1cb1eda3f6546efb7b4f1b7152fae6798",
            "test.x": "b724692f3d2242c9b3264a7922f3edb5c9f2a2480b538c85eef3b155c17b8455",
            "test.y": "6d54cfdcdd806a6a47ea1c4978ee79f3ec2d9c5d55baa3e850dcb9e27c0d0dca",
        },
    ),
    num_classes=None,
)

CONCRETE = Spec(
    name="concrete",
    description="Strength of 1,030 pieces of concrete (UCI; Yeh, 1998); a tenth are test rows",
    files=_table(
        "uci/Concrete_Data.xls",
        formats.spreadsheet,
        "concrete/compressive/Concrete_Data.xls",
        (927, 103),
        8,
        {
            "train.x": "561dd565e242a48376a4bad5a5ad4532b555154a0a519c5de8c7444d01ce12cb",
            "train.y": "dba0b618e242b264d0e350130f3b5809b02b210f4dabf8374914a9b376faf13e",
            "test.x": "47e72f1332eb94c0345dbde9b0e9c0a39684ccf526b544639f8d09e818c2dbfd",
            "test.y": "c2b2dd6b7bff541c349c3581fee453a002029a6ce99d8eed79358f3e901e744d",
        },
    ),
    num_classes=None,
)

PROTEIN = Spec(
    name="protein",
    description="Shape of 45,730 proteins, CASP (UCI; Rana, 2013); a tenth are test rows",
    files=_table(
        "uci/CASP.csv",
        formats.titled_table,
        "00265/CASP.csv",
        (41_157, 4_573),
        9,
        {
            "train.x": "3d8b188994c28394437b092b438a0e0b344682080e0d63a5c5d7f913b15d21f1",
            "train.y": "0a7c710df921a2fe3b0ee0f8dc5ea89053b93333b2b913f07e5beec039af29ab",
            "test.x": "e442ccd67cea9d947bc6736afffb1c47a082998ecb4cf632f805d0e0e385f106",
            "test.y": "052229ead31783e1e75d1527503ec65b5616169504ee8a1f338322ba13e5bcc6",
        },
    ),
    num_classes=None,
)


def _labelled(path: str, read: Reader, shape: tuple[int, int], x: str, y: str, url: str) -> File:
    """Returns a table with classes that is not split; `x` and `y` are checksums."""
    return _public(path, read, {"train.x": Part(shape, x), "train.y": Part(shape[:1], y)}, _MB, url)


_GOOD = partial(formats.classes, {"1": 1, "-1": 0, "g": 1, "b": 0}, -1, 0)

IONOSPHERE = Spec(
    name="ionosphere",
    description="Radar echoes, good (1) or bad (UCI; Sigillito et al., 1989); not split",
    files=(
        _labelled(
            "samplers/ionosphere.csv",
            _GOOD,
            (351, 34),
            "b6d58a46557a4ec9caa67acc7fa797130d8d432b795b57e4b2d6f16dcf2e0786",
            "4b92280aa6b31a996751ee5a835bb85f34c223635f9a12f352aa2d7d9daa5cbc",
            f"{_UCI}/ionosphere/ionosphere.data",
        ),
    ),
    num_classes=2,
)

# UCI has other units. LIBSVM's file has the ones that all publications use, from -1 to 1.
_SONAR = _labelled(
    "samplers/sonar.csv",
    _GOOD,
    (208, 60),
    "2834ca9be5ac802f3775e11a00660268023d40cb0ad7f11e0c9651040438f99c",
    "7e59f1254048c96e4017c35a418c3b801aa0c0efbc8ec69aab76e42350572d9d",
    "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/sonar_scale",
)

SONAR = Spec(
    name="sonar",
    description="Sonar echoes of rocks (1) and mines (UCI; Gorman & Sejnowski, 1988), scaled; not split",
    files=(
        dataclasses.replace(
            _SONAR,
            sources=tuple(source._replace(read=formats.libsvm) for source in _SONAR.sources),
            pack=formats.pack_classes,
        ),
    ),
    num_classes=2,
)

GERMAN_CREDIT = Spec(
    name="german-credit",
    description="Loans in Germany, good (1) or bad (UCI Statlog; Hofmann, 1994), in numbers; not split",
    files=(
        _labelled(
            "samplers/german.data-numeric",
            partial(formats.classes, {"1": 1, "2": 0}, -1, 0),
            (1_000, 24),
            "de1af1cf246dd9a6e5468068574b67b9f08a73bb91967d98c733467674deb6d9",
            "fa0bfab6a743bfed4147a8a7ca4d2027568a276b2756218f23bc7e5b5b05682d",
            f"{_UCI}/statlog/german/german.data-numeric",
        ),
    ),
    num_classes=2,
)

# UCI names the classes M and B. The file that samplers are measured with writes 0 and 1 for them.
BREAST_CANCER = Spec(
    name="breast-cancer",
    description="Breast tumours in Wisconsin, malignant (1) or not (UCI; Wolberg et al., 1995); not split",
    files=(
        _labelled(
            "samplers/breast_cancer.data",
            partial(formats.classes, {"0": 1, "1": 0, "M": 1, "B": 0}, 1, 1),
            (569, 30),
            "ace340f3a4f8924791b9c5559e8492e9a896f29b3332f303863c6b46256ad45a",
            "ddf09b96d709680cb88a632fb3c4ed2facd72505c3f4ff9d121f52c455b9a51d",
            f"{_UCI}/breast-cancer-wisconsin/wdbc.data",
        ),
    ),
    num_classes=2,
)

_SAMPLERS = "https://raw.githubusercontent.com/DenisBless/variational_sampling_methods"

PINES = Spec(
    name="pines",
    description="Places of 126 pine saplings in Finland, in a unit square (Heng et al., 2020); not split",
    files=(
        _public(
            "samplers/pines.csv",
            formats.points,
            {"train.x": Part((126, 2), "949a956ad2d6b86d586afd23b98acacdbaec7d67b6a925c82dd5c3681169e47e")},
            _MB,
            f"{_SAMPLERS}/b6db042bb424475e011a443545899196ff7c69fc/targets/data/pines.csv",
            f"{_SAMPLERS}/main/targets/data/pines.csv",
        ),
    ),
    num_classes=None,
)

# Descriptions are part of the fingerprint of a result: change one only if the data changes.
DATASETS: dict[str, Spec] = {
    spec.name: spec
    for spec in (
        *(MNIST, FASHION_MNIST, BINARIZED_MNIST, HAPT, HAPT_RECOMPUTED, WAVEFORM),
        *(YACHT, BOSTON, CONCRETE, PROTEIN),
        *(IONOSPHERE, SONAR, GERMAN_CREDIT, BREAST_CANCER, PINES),
    )
}
