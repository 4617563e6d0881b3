//! RMSNorm's loops against the `f64` reference, over shapes, layouts and element types.

mod reference;

use armature_cpu::{Element, Float, Rows, rms_norm};
use half::{bf16, f16};
use proptest::prelude::*;
use reference::{relative_error, values};

/// An element type, how it converts, and how far from the reference it may be.
trait Checked: Element + PartialEq + core::fmt::Debug {
    const TOLERANCE: f64;
    fn rounded(value: f64) -> Self;
    fn exact(self) -> f64;
}

macro_rules! checked {
    ($($element:ty, $tolerance:expr, $from:expr, $into:expr;)*) => {$(
        impl Checked for $element {
            const TOLERANCE: f64 = $tolerance;
            fn rounded(value: f64) -> Self { $from(value) }
            fn exact(self) -> f64 { $into(self) }
        }
    )*};
}

checked! {
    f32, 1e-6, |value| value as f32, f64::from;
    f64, 1e-14, |value| value, |value| value;
    f16, 1e-3, f16::from_f64, f16::to_f64;
    bf16, 5e-3, bf16::from_f64, bf16::to_f64;
}

fn round<E: Checked>(values: Vec<f64>) -> Vec<E> {
    values.into_iter().map(E::rounded).collect()
}

fn widen<E: Checked>(values: &[E]) -> Vec<f64> {
    values.iter().map(|value| (*value).exact()).collect()
}

/// Both passes over `rows` rows of `hidden` contiguous elements, against the reference.
fn check<E: Checked>(rows: usize, hidden: usize, weighted: bool, epsilon: f64) {
    let seed = (rows * 31 + hidden) as u64;
    let x: Vec<E> = round(values(rows * hidden, seed));
    let grad: Vec<E> = round(values(rows * hidden, seed + 1));
    let weight: Option<Vec<E>> = weighted.then(|| round(values(hidden, seed + 2)));
    let strides = [hidden as isize, 1];
    let x_rows = Rows::new(&x, 0, &[rows, hidden], &strides);
    let grad_rows = Rows::new(&grad, 0, &[rows, hidden], &strides);

    let (y, rstd) = rms_norm::forward(&x_rows, weight.as_deref(), epsilon);
    let (dx, dw) = rms_norm::backward(&x_rows, weight.as_deref(), &rstd, &grad_rows, (true, true));

    let mut in_place = x.clone();
    rms_norm::forward_in_place(&mut in_place, hidden, weight.as_deref(), epsilon);
    assert_eq!(in_place, y, "in place, the same");

    let (x, grad) = (widen(&x), widen(&grad));
    let weight = weight.map(|weight| widen(&weight));
    let hidden_or_one = hidden.max(1);
    let (y_true, rstd_true) = reference::forward(&x, weight.as_deref(), hidden_or_one, epsilon);
    let (dx_true, mut dw_true) =
        reference::backward(&x, weight.as_deref(), &grad, hidden_or_one, epsilon);
    dw_true.truncate(hidden);

    let rstd: Vec<f64> = rstd.into_iter().map(Float::to_f64).collect();
    if hidden > 0 {
        assert_close("rstd", &rstd, &rstd_true, 1e-6);
    }
    assert_close("y", &widen(&y), &y_true, E::TOLERANCE);
    let scale = reference::dx_scale(&x, weight.as_deref(), &grad, hidden_or_one, epsilon);
    let error = reference::error_by(&widen(&dx.unwrap()), &dx_true, &scale);
    assert!(
        error <= E::TOLERANCE,
        "dx: error {error:e}, {:e} allowed",
        E::TOLERANCE
    );
    let mut scale = reference::dw_scale(&x, &grad, hidden_or_one, epsilon);
    scale.truncate(hidden);
    let error = reference::error_by(&widen(&dw.unwrap()), &dw_true, &scale);
    assert!(
        error <= E::TOLERANCE,
        "dw: error {error:e}, {:e} allowed",
        E::TOLERANCE
    );
}

fn assert_close(what: &str, out: &[f64], expected: &[f64], tolerance: f64) {
    let error = relative_error(out, expected);
    assert!(
        error <= tolerance,
        "{what}: relative error {error:e}, {tolerance:e} allowed"
    );
}

fn check_all(rows: usize, hidden: usize, weighted: bool) {
    check::<f32>(rows, hidden, weighted, 1e-5);
    check::<f64>(rows, hidden, weighted, 1e-5);
    check::<f16>(rows, hidden, weighted, 1e-5);
    check::<bf16>(rows, hidden, weighted, 1e-5);
}

#[test]
fn shapes_around_every_edge() {
    // Lanes (32), blocks (1024), tasks (16384 elements), parts (16 rows or more) and tiles (64 rows).
    for hidden in [1, 2, 3, 7, 31, 32, 33, 1023, 1024, 1025, 2049, 20_000] {
        for rows in [1, 2, 17, 130] {
            check_all(rows, hidden, true);
        }
        check_all(3, hidden, false);
    }
    check::<f32>(70_000, 3, true, 1e-5);
    check::<bf16>(70_000, 3, true, 1e-5);
    check::<f32>(1, 131_073, true, 1e-5);
}

#[test]
fn nothing_to_do_is_done() {
    for (rows, hidden) in [(0, 4), (0, 0), (3, 0)] {
        check_all(rows, hidden, true);
    }
    let rows = Rows::<f32>::new(&[], 0, &[3, 0], &[0, 1]);
    let (y, rstd) = rms_norm::forward(&rows, None, 0.25);
    assert_eq!((y, rstd), (vec![], vec![2.0; 3]));
    let none = Rows::<f32>::new(&[], 0, &[0, 4], &[4, 1]);
    let (dx, dw) = rms_norm::backward(&none, Some(&[1.0; 4]), &[], &none, (true, true));
    assert_eq!((dx.unwrap(), dw.unwrap()), (vec![], vec![0.0; 4]));
}

#[test]
fn only_what_is_needed_comes_back() {
    let (x, grad) = ([1.0f32, 2.0, 3.0, 4.0], [4.0f32, 3.0, 2.0, 1.0]);
    let (x, grad) = (
        Rows::new(&x, 0, &[2, 2], &[2, 1]),
        Rows::new(&grad, 0, &[2, 2], &[2, 1]),
    );
    let weight = [0.5f32, 2.0];
    let (_, rstd) = rms_norm::forward(&x, Some(&weight), 1e-5);
    let run = |needed| rms_norm::backward(&x, Some(&weight), &rstd, &grad, needed);
    let (dx, dw) = run((true, true));
    assert_eq!(run((true, false)), (dx.clone(), None));
    assert_eq!(run((false, true)), (None, dw));
    assert_eq!(run((false, false)), (None, None));
}

#[test]
fn long_rows_and_many_rows_stay_accurate() {
    // All of one sign: rounding errors of a naive sum would not cancel.
    let (rows, hidden) = (1, 1 << 22);
    let x = vec![0.1f32; hidden];
    let (_, rstd) = rms_norm::forward(&Rows::new(&x, 0, &[rows, hidden], &[0, 1]), None, 0.0);
    assert!((f64::from(rstd[0]) * f64::from(0.1f32) - 1.0).abs() < 2e-7);

    let rows = 1 << 20;
    let (x, grad) = (vec![0.1f32; rows], vec![0.3f32; rows]);
    let (x, grad) = (
        Rows::new(&x, 0, &[rows, 1], &[1, 1]),
        Rows::new(&grad, 0, &[rows, 1], &[1, 1]),
    );
    let rstd = vec![0.7f32; rows];
    let (_, dw) = rms_norm::backward(&x, None, &rstd, &grad, (false, true));
    let expected = f64::from(0.1f32) * f64::from(0.3f32) * f64::from(0.7f32) * rows as f64;
    assert!((f64::from(dw.unwrap()[0]) / expected - 1.0).abs() < 1e-6);
}

#[test]
fn nan_and_infinity_stay_in_their_rows() {
    let mut x: Vec<f32> = values(300 * 40, 7)
        .into_iter()
        .map(|value| value as f32)
        .collect();
    x[41] = f32::NAN;
    x[90] = f32::INFINITY;
    let rows = Rows::new(&x, 0, &[300, 40], &[40, 1]);
    let (y, rstd) = rms_norm::forward(&rows, None, 1e-5);
    assert!(y[40..80].iter().all(|y| y.is_nan()) && rstd[1].is_nan());
    assert!(y[90].is_nan() && y[80..120].iter().filter(|y| **y == 0.0).count() == 39);
    assert!(y[..40].iter().chain(&y[120..]).all(|y| y.is_finite()));
}

#[test]
fn threads_do_not_change_a_bit() {
    let (rows, hidden) = (1000, 257);
    let x: Vec<f32> = round(values(rows * hidden, 1));
    let grad: Vec<f32> = round(values(rows * hidden, 2));
    let weight: Vec<f32> = round(values(hidden, 3));
    let run = || {
        let shape = [rows, hidden];
        let strides = [hidden as isize, 1];
        let (x, grad) = (
            Rows::new(&x, 0, &shape, &strides),
            Rows::new(&grad, 0, &shape, &strides),
        );
        let (y, rstd) = rms_norm::forward(&x, Some(&weight), 1e-5);
        let grads = rms_norm::backward(&x, Some(&weight), &rstd, &grad, (true, true));
        (y, rstd, grads)
    };
    let on = |threads: usize| {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap()
            .install(run)
    };
    let expected = on(1);
    for threads in [2, 3, 8] {
        assert!(on(threads) == expected, "{threads} threads");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_shape(rows in 0usize..60, hidden in 0usize..3000, weighted: bool, kind in 0..4) {
        match kind {
            0 => check::<f32>(rows, hidden, weighted, 1e-6),
            1 => check::<f64>(rows, hidden, weighted, 1e-6),
            2 => check::<f16>(rows, hidden, weighted, 1e-6),
            _ => check::<bf16>(rows, hidden, weighted, 1e-6),
        }
    }

    /// Slices, permutations, broadcasts and flips of a storage give what their contiguous copies give.
    #[test]
    fn any_layout(layout in layout(), seed: u64) {
        let Layout { storage, start, shape, strides } = layout;
        let x: Vec<f32> = round(values(storage, seed));
        let grad: Vec<f32> = round(values(storage, seed ^ 1));
        let hidden = *shape.last().unwrap();
        let weight: Vec<f32> = round(values(hidden, seed ^ 2));
        let run = |x: &Rows<f32>, grad: &Rows<f32>| {
            let (y, rstd) = rms_norm::forward(x, Some(&weight), 1e-5);
            let (dx, dw) = rms_norm::backward(x, Some(&weight), &rstd, grad, (true, true));
            (y, rstd, dx, dw)
        };
        let (x, grad) =
            (Rows::new(&x, start, &shape, &strides), Rows::new(&grad, start, &shape, &strides));
        let (x_copy, grad_copy) = (x.to_vec(), grad.to_vec());
        let flat = [x.count(), hidden];
        let contiguous = [hidden as isize, 1];
        let copies = (
            Rows::new(&x_copy, 0, &flat, &contiguous),
            Rows::new(&grad_copy, 0, &flat, &contiguous),
        );
        prop_assert!(run(&x, &grad) == run(&copies.0, &copies.1));
    }
}

#[derive(Debug, Clone)]
struct Layout {
    storage: usize,
    start: usize,
    shape: Vec<usize>,
    strides: Vec<isize>,
}

/// Layouts of rank 1 to 6: a storage's dimensions permuted, each sliced, stepped, flipped or expanded.
fn layout() -> impl Strategy<Value = Layout> {
    let dims = prop::collection::vec((1usize..7, 0usize..3, 1usize..3, 0..6), 1..=6);
    (dims, any::<prop::sample::Index>()).prop_map(|(dims, rotation)| {
        let (mut stride, mut start, mut storage) = (1isize, 0isize, 1usize);
        let mut layout = Vec::new();
        for (length, offset, step, kind) in dims {
            let full = (offset + length * step).max(1);
            start += offset as isize * stride;
            let stepped = stride * step as isize;
            layout.push(match kind {
                0 => (length, 0),
                1 => {
                    start += (length as isize - 1) * stepped;
                    (length, -stepped)
                }
                _ => (length, stepped),
            });
            stride *= full as isize;
            storage *= full;
        }
        let rotation = rotation.index(layout.len());
        layout.rotate_left(rotation);
        let (shape, strides) = layout.into_iter().unzip();
        Layout {
            storage,
            start: start as usize,
            shape,
            strides,
        }
    })
}
