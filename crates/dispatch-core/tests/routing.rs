//! Routing, errors and coverage, through the public interface, on ops of many forms.

#![allow(deprecated)]

mod common;

use armature_core::{
    ArmKind, BackendTag, DispatchError, InputName, coverage, dispatch, supported_backends,
};
use burn::tensor::{DType, Device, Int, Tensor};
use common::{EveryNth, FlexOnly, PickRows, SinCos, WeightedSum, assert_close, devices, values};

fn matrix(device: &Device) -> Tensor<2> {
    Tensor::from_floats([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], device)
}

#[test]
fn an_int_input_an_optional_one_and_two_kinds_of_output() {
    for device in devices() {
        let rows = Tensor::<1, Int>::from_ints([2, 0, 2], &device);
        for (bias, expected) in [
            (None, [10.0, 12.0, 2.0, 4.0, 10.0, 12.0]),
            (
                Some([100.0, 200.0]),
                [110.0, 212.0, 102.0, 204.0, 110.0, 212.0],
            ),
        ] {
            let bias = bias.map(|bias| Tensor::<1>::from_floats(bias, &device).into_dispatch());
            let inputs = (
                matrix(&device).into_dispatch(),
                rows.clone().into_dispatch(),
                bias,
            );
            let (y, count) = dispatch(PickRows { scale: 2.0 }, inputs).unwrap();
            assert_close(&values(Tensor::<2>::from_dispatch(y)), &expected);
            let count = Tensor::<1, Int>::from_dispatch(count)
                .into_data()
                .convert::<i64>();
            assert_eq!(count.try_to_vec::<i64>().unwrap(), [3, 1, 3]);
        }
    }
}

#[test]
fn a_composite_on_tensors_of_a_generic_op() {
    for device in devices() {
        let x = Tensor::<1>::from_floats([0.0, 1.0, 2.0, 3.0, 4.0], &device);
        let y = dispatch(EveryNth::<2>, x.clone().into_dispatch()).unwrap();
        assert_close(&values(Tensor::<1>::from_dispatch(y)), &[0.0, 2.0, 4.0]);
        let y = dispatch(EveryNth::<3>, x.into_dispatch()).unwrap();
        assert_close(&values(Tensor::<1>::from_dispatch(y)), &[0.0, 3.0]);
    }
}

#[test]
fn bad_shapes_are_found_before_anything_runs() {
    for device in devices() {
        let rows = Tensor::<1, Int>::from_ints([0], &device).into_dispatch();
        let bias = Tensor::<1>::zeros([3], &device).into_dispatch();
        let inputs = (matrix(&device).into_dispatch(), rows, Some(bias));
        let error = dispatch(PickRows { scale: 1.0 }, inputs).unwrap_err();
        assert_eq!(
            error.to_string(),
            "op `pick_rows`: input `bias` must be of shape [2], but is of shape [3]; change `bias`"
        );
    }
}

#[test]
fn without_a_tensor_there_is_no_route() {
    let error = dispatch(WeightedSum, vec![]).unwrap_err();
    assert!(matches!(
        error,
        DispatchError::NoTensorInput { op: "weighted_sum" }
    ));
    assert!(
        error.to_string().ends_with("pass at least one tensor"),
        "{error}"
    );
}

#[cfg(all(feature = "flex", feature = "ndarray"))]
#[test]
fn the_first_float_decides_and_the_stray_is_named() {
    let (flex, ndarray) = (Device::flex(), Device::ndarray());
    let rows = Tensor::<1, Int>::from_ints([0], &ndarray).into_dispatch();
    let error = dispatch(
        PickRows { scale: 1.0 },
        (matrix(&flex).into_dispatch(), rows, None),
    )
    .unwrap_err();
    let DispatchError::BackendsMixed {
        op,
        input,
        expected,
        found,
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((op, input), ("pick_rows", InputName::Named("rows")));
    assert_eq!((expected, found), (BackendTag::Flex, BackendTag::NdArray));

    // Inputs without names are counted.
    let one = |device| Tensor::<1>::zeros([1], device).into_dispatch();
    let error = dispatch(WeightedSum, vec![one(&ndarray), one(&flex)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "op `weighted_sum`: input `#0` is on the backend `flex`, but the op runs on `ndarray`, \
         where its first float tensor is; move `#0` there with `Tensor::to_device`"
    );
}

#[cfg(all(feature = "flex", feature = "ndarray"))]
#[test]
fn an_unsupported_backend_says_why_and_where_else() {
    let x = |device: &Device| Tensor::<1>::from_floats([1.0, 2.0], device).into_dispatch();
    let y = dispatch(FlexOnly, x(&Device::flex())).unwrap();
    assert_close(&values(Tensor::<1>::from_dispatch(y)), &[2.0, 4.0]);

    let error = dispatch(FlexOnly, x(&Device::ndarray())).unwrap_err();
    let DispatchError::Unsupported {
        backend,
        reason,
        ref supported,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (backend, reason),
        (BackendTag::NdArray, "it is a test of Flex")
    );
    assert_eq!(supported, &[BackendTag::Flex]);
    assert_eq!(
        error.to_string(),
        "op `flex_only` does not run on the backend `ndarray`: it is a test of Flex; move the \
         inputs, with `Tensor::to_device`, to one of `flex`"
    );
}

#[test]
fn a_tensor_of_another_kind_is_refused() {
    for device in devices() {
        let rows = Tensor::<1, Int>::from_ints([0], &device).into_dispatch();
        let not_float = Tensor::<2, Int>::from_ints([[1, 2]], &device).into_dispatch();
        let error = dispatch(PickRows { scale: 1.0 }, (not_float, rows.clone(), None)).unwrap_err();
        let text = error.to_string();
        // A composite meets it in Burn; an op with kernels in the routing.
        assert!(text.contains("input `x` must be a float tensor"), "{text}");
    }
}

#[test]
fn coverage_is_const_and_says_what_is_compiled_in() {
    const ROWS: &[Option<armature_core::Coverage>; 12] = coverage::<PickRows>();
    let rows: Vec<_> = ROWS.iter().flatten().collect();
    let compiled: Vec<_> = BackendTag::ALL
        .into_iter()
        .filter(|tag| tag.is_compiled_in())
        .collect();
    assert_eq!(
        rows.iter().map(|row| row.backend).collect::<Vec<_>>(),
        compiled
    );
    for row in rows {
        assert_eq!(row.op, "pick_rows");
        let kernel = matches!(
            row.backend,
            BackendTag::NdArray | BackendTag::Flex | BackendTag::Cube(_)
        );
        let kind = if kernel {
            ArmKind::Kernel
        } else {
            ArmKind::Composite
        };
        assert_eq!(row.forward, kind, "{row:?}");
        assert_eq!(
            row.gradient,
            cfg!(feature = "autodiff").then_some(kind),
            "{row:?}"
        );
    }
    let supported: Vec<_> = supported_backends::<FlexOnly>().collect();
    assert_eq!(
        supported,
        if cfg!(feature = "flex") {
            vec![BackendTag::Flex]
        } else {
            vec![]
        }
    );
    assert_eq!(supported_backends::<SinCos>().collect::<Vec<_>>(), compiled);
}

#[cfg(feature = "flex")]
#[test]
fn infer_refuses_a_dtype() {
    let x = Tensor::<1>::from_floats([1.0], &Device::flex()).cast(DType::F64);
    let error = dispatch(FlexOnly, x.into_dispatch()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "op `flex_only`: input `x` must be F32, but is F64; change `x`"
    );
}
