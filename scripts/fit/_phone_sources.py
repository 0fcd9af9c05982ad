"""Networks of Qualcomm AI Hub rebuilt from the repositories that its definitions name, with random weights.

``SOURCES`` is a folder with one checkout a repository, named ``owner+name``; only its Python and configuration files
are needed. Modules that a checkout imports and that are not installed (clients of services, dataset readers) are
replaced by empty ones: none takes part in a network.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import json
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
from _phone_models import Network, Normalised, image
from torch import Tensor, nn

SOURCES = Path(os.environ.get("HETGYM_PHONE_SOURCES", "sources"))
HUB = "quic+ai-hub-models"


class _Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what nothing else finds, for imports that stand in a checkout."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        frame = sys._getframe(1)
        while frame.f_back is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        if not (frame.f_code.co_filename.startswith(str(SOURCES)) or name.split(".")[0] in self.made):
            return None
        self.made.add(name.split(".")[0])
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    made: set[str] = set()

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        module = MagicMock(name=spec.name)
        module.__path__, module.__spec__, module.__name__, module.__all__ = [], spec, spec.name, []
        return module

    def exec_module(self, module: Any) -> None:
        """Nothing to run."""


def load(repository: str, module: str, folder: str = "") -> Any:
    """Import a module of a checkout; each network is built in a process of its own, so names cannot clash."""
    root = SOURCES / repository / folder
    if not root.is_dir():
        raise FileNotFoundError(f"no checkout of {repository.replace('+', '/')} in {SOURCES}")
    sys.path.insert(0, str(root))
    os.chdir(root)
    for name in [n for n in sys.modules if n.split(".")[0] in ("models", "model", "lib", "config", "utils", "modules")]:
        del sys.modules[name]
    if not any(isinstance(finder, _Missing) for finder in sys.meta_path):
        sys.meta_path.append(_Missing())
    return importlib.import_module(module)


def hub(module: str) -> Any:
    """A module of the definitions themselves."""
    return load(HUB, f"qai_hub_models.models.{module}")


def bisenet() -> Network:
    from torchvision import models

    for name in ("resnet18", "resnet101"):
        make = getattr(models, name)
        setattr(models, name, lambda pretrained=False, make=make: make(weights=None))
    return Normalised(load("ooooverflow+BiSeNet", "model.build_BiSeNet").BiSeNet(12, "resnet18")), image(720, 960)


def cavaface() -> Network:
    load("cavalleria+cavaface", "backbone")
    sys.modules["config"] = SimpleNamespace(configurations={1: {}})  # type: ignore[assignment]
    torch.cuda.amp.autocast = lambda _: nullcontext()  # type: ignore[assignment,misc] # hides all convolutions
    net = importlib.import_module("backbone.resnet_irse").IR_SE_100([112, 112])
    return Normalised(net), image(112)


def ffnet(kind: str, backbone: str, head: str, low: bool) -> Callable[[], Network]:
    def build() -> Network:
        blocks = load("Qualcomm-AI-research+FFNet", "models.ffnet_blocks")
        resnet = importlib.import_module("models.resnet")
        net = blocks.create_ffnet(
            ffnet_head_type=f"{head}_mobile", task=f"segmentation_{head}", num_classes=19, model_name=kind,
            backbone=getattr(resnet, backbone), pre_downsampling=low, pretrained_weights_path=None,
            strict_loading=False, pretrained=False,
        )  # fmt: skip
        return Normalised(net), image(512, 1024) if low else image(1024, 2048)

    return build


def hrnet_face() -> Network:
    load("HRNet+HRNet-Facial-Landmark-Detection", "lib.models.hrnet")
    defaults = importlib.import_module("lib.config").config
    defaults.merge_from_file("experiments/cofw/face_alignment_cofw_hrnet_w18.yaml")
    defaults.defrost()
    defaults.MODEL.INIT_WEIGHTS = False
    return Normalised(importlib.import_module("lib.models.hrnet").HighResolutionNet(defaults)), image(256)


def hrnet_ocr() -> Network:
    load("HRNet+HRNet-Semantic-Segmentation", "yaml", "lib")
    import numpy as np
    import yaml

    setattr(np, "int", int)  # noqa: B010 - the checkout uses an old name
    path = "../experiments/cityscapes/seg_hrnet_ocr_w48_train_512x1024_sgd_lr1e-2_wd5e-4_bs_12_epoch484.yaml"
    config = _space(yaml.safe_load(Path(path).read_text()))
    config.MODEL.ALIGN_CORNERS = True
    config.MODEL.OCR = _space({"MID_CHANNELS": 512, "KEY_CHANNELS": 256, "DROPOUT": 0.05, "SCALE": 1})
    bn = importlib.import_module("models.bn_helper")
    bn.BatchNorm2d, bn.BatchNorm2d_class = nn.BatchNorm2d, nn.BatchNorm2d
    module = importlib.import_module("models.seg_hrnet_ocr")
    module.BatchNorm2d = nn.BatchNorm2d
    return Normalised(module.HighResolutionNet(config), lambda out: out[1]), image(1024, 2048)


class _Space(dict[str, Any]):
    """A dictionary whose items are attributes, too."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__  # type: ignore[assignment]


def _space(value: Any) -> Any:
    return _Space({k: _space(v) for k, v in value.items()}) if isinstance(value, dict) else value


def pidnet() -> Network:
    return Normalised(load("XuJiacong+PIDNet", "models.pidnet").get_pred_model("pidnet_s", 19)), image(1024, 2048)


class _Posenet(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Any:
        out = self.net(x * 2.0 - 1.0)
        return *out, nn.functional.max_pool2d(out[0], 3, stride=1, padding=1)


def posenet() -> Network:
    return _Posenet(load("rwightman+posenet-pytorch", "posenet.models.mobilenet_v1").MobileNetV1(101)), image(513, 257)


class _Flipped(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(torch.cat([x, x.flip(3)], 0))[0].unsqueeze(0)


def pspnet() -> Network:
    net = load("hszhao+semseg", "model.pspnet").PSPNet(layers=101, classes=150, zoom_factor=8, pretrained=False)
    return _Flipped(net), image(473)


def midas() -> Network:
    load("rwightman+gen-efficientnet-pytorch", "geffnet")
    geffnet = sys.modules["geffnet"]
    blocks = load("isl-org+MiDaS", "midas.blocks")
    torch.hub.load = lambda repo, name, **k: geffnet.create_model(name, pretrained=False, exportable=True)  # type: ignore[assignment]
    assert blocks
    net = importlib.import_module("midas.midas_net_custom").MidasNet_small(
        None, features=64, backbone="efficientnet_lite3", exportable=True, non_negative=True, blocks={"expand": True}
    )
    return Normalised(net), image(256)


def sinet() -> Network:
    config = [[[3, 1], [5, 1]], [[3, 1], [3, 1]], [[3, 1], [5, 1]], [[3, 1], [3, 1]], [[5, 1], [3, 2]],
              [[5, 2], [3, 4]], [[3, 1], [3, 1]], [[5, 1], [5, 1]], [[3, 2], [3, 4]], [[3, 1], [5, 2]]]  # fmt: skip
    module = load("clovaai+ext_portrait_segmentation", "models.SINet")
    return Normalised(module.SINet(classes=2, p=2, q=8, config=config, chnn=1)), image(224)


def yolov6() -> Network:
    load("meituan+YOLOv6", "yolov6")
    config = importlib.import_module("yolov6.utils.config").Config.fromfile("configs/yolov6n.py")
    setattr(config, "training_mode", "repvgg")  # noqa: B010
    common = importlib.import_module("yolov6.layers.common")
    init = common.RepVGGBlock.__init__
    init.__defaults__ = (*init.__defaults__[:-2], True, False)  # blocks as they are deployed: one convolution each
    net = importlib.import_module("yolov6.models.yolo").build_model(config, 80, torch.device("cpu"))
    for layer in net.modules():
        if isinstance(layer, nn.Upsample):
            layer.recompute_scale_factor = None
    net.export = True
    net.detect.export = True
    return _Boxes(net), image(640)


class _Boxes(nn.Module):
    """Boxes as corners, and the best class, as the definitions of YOLOv6 take them from its result."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        out = self.net(x)[0]  # and the feature maps
        half = out[..., 2:4] / 2
        scores, labels = (out[..., 5:] * out[..., 4:5]).max(-1)
        return torch.cat([out[..., :2] - half, out[..., :2] + half], -1), scores, labels


def yolor() -> Network:
    net = load("WongKinYiu+yolor", "models.models").Darknet("cfg/yolor_p6.cfg", 640)
    return net, image(640)


def deeplab_mobile() -> Network:
    load("jfzhang95+pytorch-deeplab-xception", "modeling")
    back = importlib.import_module("modeling.backbone.mobilenet")
    back.MobileNetV2._load_pretrained_model = lambda self: None
    net = importlib.import_module("modeling.deeplab").DeepLab(backbone="mobilenet", sync_bn=False, num_classes=21)
    return Normalised(net, lambda out: out.argmax(1)), image(520)


def deeplab_xception() -> Network:
    load("LikeLy-Journey+SegmenTron", "segmentron.config")
    models = Path("segmentron/models/__init__.py")
    models.write_text(models.read_text().replace("from .ccnet import CCNet", ""))
    cfg = importlib.import_module("segmentron.config").cfg
    cfg.update_from_file("configs/pascal_voc_deeplabv3_plus.yaml")
    cfg.TRAIN.PRETRAINED_BACKBONE_PATH = cfg.TRAIN.BACKBONE_PRETRAINED_PATH = ""
    cfg.TRAIN.BACKBONE_PRETRAINED = False
    cfg.PHASE = "test"
    net = importlib.import_module("segmentron.models.model_zoo").get_segmentation_model()
    return Normalised(net, lambda out: out[0].argmax(1)), image(480, 520)


class _Inpaint(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        out = self.net(torch.cat([x * (1 - mask), mask], 1))
        return mask * out + (1 - mask) * x


class _Aotgan(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        out = self.net((x * 2 - 1) * (1 - mask) + mask, mask)
        return ((out * mask + (x * 2 - 1) * (1 - mask)) + 1) / 2


def aotgan() -> Network:
    net = load("researchmm+AOT-GAN-for-Inpainting", "model.aotgan", "src").InpaintGenerator(
        SimpleNamespace(rates=[1, 2, 4, 8], block_num=8)
    )
    return _Aotgan(net), (*image(512), *image(512, channels=1))


def lama() -> Network:
    import yaml

    load("advimman+lama", "yaml")
    path = "configs/training/generator/pix2pixhd_multidilated_catin_4dil_9b.yaml"
    config = yaml.safe_load(Path(path).read_text())
    config.pop("kind")
    net = importlib.import_module("saicinpainting.training.modules.pix2pixhd").GlobalGenerator(
        input_nc=4, output_nc=3, **{k: v for k, v in config.items() if k not in ("input_nc", "output_nc")}
    )
    return _Inpaint(net), (*image(512), *image(512, channels=1))


def easyocr(part: str) -> Callable[[], Network]:
    def build() -> Network:
        load("JaidedAI+EasyOCR", "torchvision")
        import torchvision.models as tv

        sys.modules["easyocr"] = package = type(sys)("easyocr")
        package.__path__ = [str(SOURCES / "JaidedAI+EasyOCR" / "easyocr")]
        assert tv
        if part == "detector":
            net = importlib.import_module("easyocr.craft").CRAFT(pretrained=False)
            return Normalised(net, lambda out: out[0]), image(608, 800)
        net = importlib.import_module("easyocr.model.vgg_model").Model(1, 256, 256, 97)
        return _Recogniser(net), image(64, 800, 1)

    return build


class _Recogniser(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net((x - 0.5) / 0.5, None)


def mobile_sam() -> Network:
    sam = load("ChaoningZhang+MobileSAM", "mobile_sam.build_sam").sam_model_registry["vit_t"]()
    return Normalised(sam.image_encoder), image(1024)


def esrgan() -> Network:
    return load("xinntao+ESRGAN", "RRDBNet_arch").RRDBNet(3, 3, 64, 23, gc=32), image(128)


def efficientvit(name: str) -> Callable[[], Network]:
    def build() -> Network:
        torch.cuda.amp.autocast = lambda **_: lambda method: method  # type: ignore[assignment,misc] # hides attention
        net = load("CVHub520+efficientvit", "efficientvit.cls_model_zoo").create_cls_model(name, pretrained=False)
        return Normalised(net), image(224)

    return build


def gpunet() -> Network:
    module = load("NVIDIA+DeepLearningExamples", "models.gpunet_builder", "PyTorch/Classification/GPUNet")
    config = json.loads(Path("configs/batch1/GV100/0.65ms.json").read_text())
    return Normalised(module.GPUNet_Builder().get_model(config)), image(224)


def fomm(part: str) -> Callable[[], Network]:
    def build() -> Network:
        import yaml

        load("AliaksandrSiarohin+first-order-model", "sync_batchnorm")
        modules = SOURCES / "AliaksandrSiarohin+first-order-model" / "modules"
        config = yaml.safe_load((modules.parent / "config" / "vox-256.yaml").read_text())["model_params"]
        common = config["common_params"]
        if part == "detector":
            module = importlib.import_module("modules.keypoint_detector")
            return module.KPDetector(**config["kp_detector_params"], **common), image(256)
        module = importlib.import_module("modules.generator")
        net = module.OcclusionAwareGenerator(**config["generator_params"], **common)
        return _Generator(net), (*image(256), torch.zeros(1, 10, 2), torch.zeros(1, 10, 2, 2), torch.zeros(1, 10, 2),
                                 torch.zeros(1, 10, 2, 2))  # fmt: skip

    return build


class _Generator(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
        found: Tensor = self.net(x, kp_source={"value": a, "jacobian": b}, kp_driving={"value": c, "jacobian": d})[
            "prediction"
        ]
        return found


def super_resolution(kind: str) -> Callable[[], Network]:
    def build() -> Network:
        folder = SOURCES / "quic+aimet-model-zoo" / "aimet_zoo_torch"
        for name, path in (("zoo", folder / "common/super_resolution"), ("quick", folder / "quicksrnet/model")):
            package = type(sys)(name)
            package.__path__ = [str(path)]
            sys.modules[name] = package
        load("quic+aimet-model-zoo", "zoo.models")
        if kind == "xlsr":
            return importlib.import_module("zoo.models").XLSRRelease(scaling_factor=4), image(128)
        channels, layers, ito = {"large": (64, 11, True), "medium": (32, 5, False)}[kind]
        net = importlib.import_module("quick.models").QuickSRNetBase(
            scaling_factor=4, num_channels=channels, num_intermediate_layers=layers, use_ito_connection=ito
        )
        return net, image(128)

    return build


class _UNet(nn.Module):
    """U-Net of github.com/milesial/Pytorch-UNet, with transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [64, 128, 256, 512, 1024]
        self.down = nn.ModuleList(self._pair(a, b) for a, b in zip([3, *sizes], sizes, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * b, b, 2, 2) for b in sizes[-2::-1])
        self.join = nn.ModuleList(self._pair(2 * b, b) for b in sizes[-2::-1])
        self.head = nn.Conv2d(64, 2, 1)

    @staticmethod
    def _pair(a: int, b: int) -> nn.Module:
        layers: list[nn.Module] = []
        for before in (a, b):
            layers += [nn.Conv2d(before, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True)]
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for i, down in enumerate(self.down):
            x = down(nn.functional.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for up, join, side in zip(self.up, self.join, kept[-2::-1], strict=True):
            x = join(torch.cat([side, up(x)], 1))
        return self.head(x)


def unet() -> Network:
    return _UNet(), image(640, 1280)


def own(model: str, cls: str, height: int, width: int, channels: int = 3, **sizes: Any) -> Callable[[], Network]:
    """A network whose layers stand in the definition itself."""

    def build() -> Network:
        return getattr(hub(f"{model}.model"), cls)(**sizes), image(height, width, channels)

    return build


def gear_guard() -> Network:
    module = hub("gear_guard_net.model")
    kept: dict[str, Any] = {}

    class Kept(module.GearGuardNet):  # type: ignore[misc,name-defined]
        def __init__(self, model_cfg: Any, ch: int = 3, include_postprocessing: bool = True) -> None:
            super().__init__(model_cfg, ch, include_postprocessing)
            kept["net"] = self

    module.load_torch = MagicMock(side_effect=InterruptedError)  # no weights
    with suppress(InterruptedError):
        Kept.from_pretrained()
    return kept["net"], image(320, 192)


class _Pair(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Any:
        return self.net(x)


def blaze(module: str, cls: str, size: int, **sizes: Any) -> Callable[[], Network]:
    """A network of github.com/zmurez/MediaPipePyTorch."""

    def build() -> Network:
        root = SOURCES / "zmurez+MediaPipePyTorch"
        for path in root.glob("blaze*.py"):
            text = path.read_text().replace("if x.shape[0] == 0:", "if False:")
            text = text.replace('F.pad(x, (1, 2, 1, 2), "constant", 0)', 'F.pad(x, (2, 2, 2, 2), "constant", 0)')
            path.write_text(text)
        return _Pair(getattr(load("zmurez+MediaPipePyTorch", module), cls)(**sizes)), image(size)

    return build


def hand_landmarks() -> Network:
    return hub("mediapipe_hand_gesture.model").HandLandmarkDetector(), image(224)


def gestures() -> Network:
    net = hub("mediapipe_hand_gesture.model").CannedGestureClassifier()
    return net, (torch.zeros(1, 64), torch.zeros(1, 64))


def whisper_encoder() -> Network:
    import transformers

    config = transformers.WhisperConfig(
        d_model=768, encoder_layers=12, decoder_layers=12, encoder_attention_heads=12, decoder_attention_heads=12,
        encoder_ffn_dim=3072, decoder_ffn_dim=3072, num_mel_bins=80, vocab_size=51865, attn_implementation="eager",
    )  # fmt: skip
    config.return_dict = False
    config.mask_neg = -100.0
    net = transformers.WhisperForConditionalGeneration(config)
    hub("_shared.hf_whisper.model_adaptation").monkey_patch_model(net.model)
    return _Whisper(net.get_encoder()), (torch.zeros(1, 80, 3000),)


class _Whisper(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Any:
        return self.net(x)[0]


class _WhisperStep(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, token: Tensor, mask: Tensor, own: list[Tensor], cross: list[Tensor], position: Tensor) -> Any:
        def pairs(cache: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
            return [(cache[i], cache[i + 1]) for i in range(0, len(cache), 2)]

        return self.net(
            input_ids=token, attention_mask=mask, past_key_values=pairs(own), cross_attn_past_key_value=pairs(cross),
            position_ids=position,
        )  # fmt: skip


def whisper_decoder() -> Network:
    encoder, _ = whisper_encoder()
    import gc

    import transformers

    assert encoder
    config = transformers.WhisperConfig(
        d_model=768, encoder_layers=1, decoder_layers=12, encoder_attention_heads=12, decoder_attention_heads=12,
        encoder_ffn_dim=3072, decoder_ffn_dim=3072, num_mel_bins=80, vocab_size=51865, attn_implementation="eager",
    )  # fmt: skip
    config.return_dict = False
    config.mask_neg = -100.0
    config.tie_word_embeddings = False
    net = transformers.WhisperForConditionalGeneration(config)
    gc.collect()
    hub("_shared.hf_whisper.model_adaptation").monkey_patch_model(net.model)
    own_caches = [torch.zeros(12, 1, *(s if i % 2 == 0 else s[::-1])) for i in range(24) for s in [(64, 199)]]
    cross = [torch.zeros(12, 1, *(s if i % 2 == 0 else s[::-1])) for i in range(24) for s in [(64, 1500)]]
    arguments = (
        torch.zeros(1, 1, dtype=torch.int32), torch.zeros(1, 1, 1, 200), own_caches, cross,
        torch.zeros(1, dtype=torch.int64),
    )  # fmt: skip
    return _WhisperStep(net.get_decoder()), arguments  # type: ignore[return-value]


class _Noise(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, time: Tensor, text: Tensor) -> Any:
        return self.net(x, time, text, return_dict=False)[0]


def _scores(self: Any, query: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    """Weights of an attention, written out."""
    scores = query @ key.transpose(-1, -2) * self.scale
    return (scores if mask is None else scores + mask).softmax(-1)


def diffusion(part: str, width: int) -> Callable[[], Network]:
    """Parts of Stable Diffusion 1.5 (width 768) and 2.1 (width 1024)."""

    def build() -> Network:
        import transformers
        from diffusers import AutoencoderKL, ControlNetModel, UNet2DConditionModel
        from diffusers.models.attention_processor import Attention, AttnProcessor

        Attention.get_attention_scores = _scores  # its own adds a product to an empty constant of the same size
        heads = 8 if width == 768 else [5, 10, 20, 20]
        more: dict[str, Any] = {"cross_attention_dim": width, "attention_head_dim": heads}
        if width == 1024:
            more["use_linear_projection"] = True
        if part == "text":
            layers, inner, head = (12, 3072, 12) if width == 768 else (23, 4096, 16)
            config = transformers.CLIPTextConfig(
                vocab_size=49408, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
                num_attention_heads=head, attn_implementation="eager",
            )  # fmt: skip
            return _Hidden(transformers.CLIPTextModel(config)), (torch.zeros(1, 77, dtype=torch.int32),)
        if part == "vae":
            net = AutoencoderKL(
                block_out_channels=(128, 256, 512, 512), layers_per_block=2, latent_channels=4,
                down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
            )  # fmt: skip
            net.set_attn_processor(AttnProcessor())
            return _Decode(net), (torch.zeros(1, 4, 64, 64),)
        net = (UNet2DConditionModel if part == "unet" else ControlNetModel)(**more)
        net.set_attn_processor(AttnProcessor())
        arguments = torch.zeros(1, 4, 64, 64), torch.zeros(1), torch.zeros(1, 77, width)
        if part == "unet":
            return _Noise(net), arguments
        return _Control(net), (*arguments, torch.zeros(1, 3, 512, 512))

    return build


class _Hidden(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x, return_dict=False)[0]


class _Decode(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net.decode(x / 0.18215, return_dict=False)[0] / 2 + 0.5


class _Control(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, time: Tensor, text: Tensor, control: Tensor) -> Any:
        return self.net(x, time, text, control, return_dict=False)


NETWORKS: dict[tuple[str, str], Callable[[], Network]] = {
    ("bisenet", "BiseNet"): bisenet,
    ("cavaface", "CavaFace"): cavaface,
    ("ffnet_40s", "FFNet-40S"): ffnet("40S", "Resnet40S_D", "B", False),
    ("ffnet_54s", "FFNet-54S"): ffnet("54S", "Resnet54S_D", "B", False),
    ("ffnet_78s_lowres", "FFNet-78S-LowRes"): ffnet("78S", "Resnet78S", "C", True),
    ("ffnet_122ns_lowres", "FFNet-122NS-LowRes"): ffnet("122NS", "Resnet122NS", "C", True),
    ("hrnet_face", "HRNetFace"): hrnet_face,
    ("hrnet_w48_ocr", "HRNet-W48-OCR"): hrnet_ocr,
    ("pidnet", "PidNet"): pidnet,
    ("posenet_mobilenet", "Posenet-Mobilenet"): posenet,
    ("pspnet", "PSPNet"): pspnet,
    ("midas", "Midas-V2"): midas,
    ("sinet", "SINet"): sinet,
    ("yolov6", "Yolo-v6"): yolov6,
    ("yolor", "Yolo-R"): yolor,
    ("deeplabv3_plus_mobilenet", "DeepLabV3-Plus-MobileNet"): deeplab_mobile,
    ("deeplab_xception", "DeepLabXception"): deeplab_xception,
    ("aotgan", "AOT-GAN"): aotgan,
    ("lama_dilated", "LaMa-Dilated"): lama,
    ("easyocr", "EasyOCRDetector"): easyocr("detector"),
    ("easyocr", "EasyOCRRecognizer"): easyocr("recogniser"),
    ("mobilesam", "MobileSAMEncoder"): mobile_sam,
    ("esrgan", "ESRGAN"): esrgan,
    ("real_esrgan_x4plus", "Real-ESRGAN-x4plus"): esrgan,
    ("efficientvit_b2_cls", "EfficientViT-b2-cls"): efficientvit("b2"),
    ("efficientvit_l2_cls", "EfficientViT-l2-cls"): efficientvit("l2"),
    ("gpunet", "GPUNet"): gpunet,
    ("fomm", "FOMMDetector"): fomm("detector"),
    ("fomm", "FOMMGenerator"): fomm("generator"),
    ("xlsr", "XLSR"): super_resolution("xlsr"),
    ("quicksrnetlarge", "QuickSRNetLarge"): super_resolution("large"),
    ("quicksrnetmedium", "QuickSRNetMedium"): super_resolution("medium"),
    ("unet_segmentation", "Unet-Segmentation"): unet,
    ("face_attrib_net", "Facial-Attribute-Detection"): own(
        "face_attrib_net", "FaceAttribNet", 128, 128, chan=64, blks_per_layer=[2, 6, 3]
    ),
    ("face_det_lite", "Lightweight-Face-Detection"): own("face_det_lite", "FaceDetLite", 480, 640, 1),
    ("foot_track_net", "Person-Foot-Detection"): own("foot_track_net", "FootTrackNet", 480, 640),
    ("gear_guard_net", "PPE-Detection"): gear_guard,
    ("mediapipe_face", "FaceDetector"): blaze("blazeface", "BlazeFace", 256, back_model=True),
    ("mediapipe_face", "FaceLandmarkDetector"): blaze("blazeface_landmark", "BlazeFaceLandmark", 192),
    ("mediapipe_hand", "HandDetector"): blaze("blazepalm", "BlazePalm", 256),
    ("mediapipe_hand", "HandLandmarkDetector"): blaze("blazehand_landmark", "BlazeHandLandmark", 256),
    ("mediapipe_hand_gesture", "PalmDetector"): blaze("blazepalm", "BlazePalm", 256),
    ("mediapipe_hand_gesture", "HandLandmarkDetector"): hand_landmarks,
    ("mediapipe_hand_gesture", "CannedGestureClassifier"): gestures,
    ("mediapipe_pose", "PoseDetector"): blaze("blazepose", "BlazePose", 128),
    ("mediapipe_pose", "PoseLandmarkDetector"): blaze("blazepose_landmark", "BlazePoseLandmark", 256),
    ("mediapipe_selfie", "MediaPipe-Selfie-Segmentation"): own("mediapipe_selfie", "SelfieSegmentation", 256, 256),
    ("whisper_small", "HfWhisperEncoder"): whisper_encoder,
    ("whisper_small_quantized", "WhisperSmallEncoderQuantizable"): whisper_encoder,
    ("whisper_small", "HfWhisperDecoder"): whisper_decoder,
    ("whisper_small_quantized", "WhisperSmallDecoderQuantizable"): whisper_decoder,
    ("stable_diffusion_v2_1", "text_encoder"): diffusion("text", 1024),
    ("stable_diffusion_v2_1", "unet"): diffusion("unet", 1024),
    ("stable_diffusion_v2_1", "vae"): diffusion("vae", 1024),
    ("controlnet_canny", "text_encoder"): diffusion("text", 768),
    ("controlnet_canny", "unet"): diffusion("unet", 768),
    ("controlnet_canny", "vae"): diffusion("vae", 768),
    ("controlnet_canny", "controlnet"): diffusion("control", 768),
}
"""Model and component as in the table of latencies -> its network."""
